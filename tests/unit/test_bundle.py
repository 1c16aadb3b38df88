"""Joining the runtime's modules: nothing is lost, the order holds, and bad style is refused."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest
from proxies import posix

from mcpagg.bundle import DEFERRED, Bundle, bundle, runtime_digest
from mcpagg.modules import PACKAGE, PARTS, BundleError, all_taken_apart
from mcpagg.stripping import Source
from mcpagg_runtime.start import parts as loader

Join = Callable[..., Bundle]


@pytest.fixture(scope="module")
def real() -> Bundle:
    """Join the real runtime."""
    return bundle()


@pytest.fixture
def join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Join:
    """Return a function that joins modules {part_name: source}."""
    folder = tmp_path / "package"
    for part in PARTS:
        (folder / part).mkdir(parents=True)
        (folder / part / "__init__.py").write_text('"""A part."""\n', "utf-8")
    monkeypatch.setattr(resources, "files", lambda _: folder)

    def joined(without: tuple[str, ...] = (), **modules: str) -> Bundle:
        for module, source in modules.items():
            part, name = module.split("_")
            (folder / part / f"{name}.py").write_text(source, "utf-8")
        return bundle(without=without)

    return joined


def module(code: str = "", heading: str = "Does something.") -> str:
    """Return the source of a module."""
    return f'"""{heading}"""\n\nfrom __future__ import annotations\n\n{code}\n'


def sources(joined: Bundle) -> list[str]:
    """Return all the source in a bundle."""
    return [joined.imports, joined.first, *joined.deferred.values()]


def definitions(source: str) -> Iterator[str]:
    """Yield the definitions of a module, as the parser sees them."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
            yield ast.dump(node)


def run(file: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python file alone, warnings as errors."""
    command = [sys.executable, "-I", "-S", "-W", "error", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def as_file(joined: Bundle, *, after: str) -> str:
    """Return the bundle as the emitted file has it, and what is run behind it."""
    parts = "".join(
        f"define_part({name!r}, r'''\n{source}''')\n" for name, source in joined.deferred.items()
    )
    return f"{joined.imports}\n{joined.first}\n{parts}\n{after}\n"


# --- The real runtime -------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_every_definition_of_a_part_is_in_the_bundle(real: Bundle, part: str) -> None:
    found = {*definitions(real.first if part == "start" else real.deferred[part])}
    for file in resources.files(PACKAGE).joinpath(part).iterdir():
        if file.name.endswith(".py"):
            # An import that loads a part is another statement in the bundle.
            lines = [loaded(line) for line in file.read_text("utf-8").splitlines()]
            source = Source("\n".join(lines))
            source.strip()
            missing = [dump for dump in definitions(source.rest()) if dump not in found]
            assert missing == [], file.name


def loaded(line: str) -> str:
    """Return a line as the bundle has it."""
    indent = line[: len(line) - len(line.lstrip())]
    start = f"from {PACKAGE}."
    if indent and line.strip().startswith(start):
        part = line.strip().removeprefix(start).split(".")[0]
        return f'{indent}load_part("{part}")'
    return line


def test_no_import_of_the_package_is_left(real: Bundle) -> None:
    for source in sources(real):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("mcpagg")
        assert "TYPE_CHECKING" not in source


@pytest.mark.parametrize("part", DEFERRED)
def test_each_part_can_be_loaded_first(real: Bundle, part: str, tmp_path: Path) -> None:
    """No name is used before it is defined, and a start loads no slow module."""
    slow = "{'re', 'json', 'typing', 'enum', 'threading', 'subprocess', 'asyncio'}"
    check = f"slow = {slow} & set(sys.modules)\nassert not slow, slow\nload_part({part!r})"
    file = tmp_path / "joined.py"
    file.write_text(as_file(real, after=check), "utf-8")
    done = run(file)
    assert (done.returncode, done.stderr) == (0, "")


def test_joining_twice_gives_the_same(real: Bundle) -> None:
    assert bundle() == real
    assert runtime_digest() == runtime_digest()


# --- Joining ----------------------------------------------------------------------------------


def test_a_module_stands_behind_all_that_it_imports(join: Join) -> None:
    joined = join(
        start_a=module(
            "from mcpagg_runtime.start.mid import m\n"
            "from mcpagg_runtime.start.low import low\n\nT = m"
        ),
        start_mid=module("from mcpagg_runtime.start.low import low\n\nm = low"),
        start_low=module("low = 1"),
    )
    places = [joined.first.index(text) for text in ("low = 1", "m = low", "T = m")]
    assert places == sorted(places)
    assert joined.first.count("low = 1") == 1
    assert joined.deferred == {}


def test_the_first_line_of_a_docstring_becomes_the_heading(join: Join) -> None:
    joined = join(start_a=module("A = 1", heading="Says it.\n\nAnd more."))
    assert "# start/a.py: Says it." in joined.first
    assert "And more" not in joined.first


def test_imports_of_the_standard_library_are_gathered_once_and_sorted(join: Join) -> None:
    joined = join(
        start_a=module(
            "import sys\nfrom time import (\n    monotonic,\n)\nimport os\n\n"
            "from mcpagg_runtime.start.b import B\n\nA = B"
        ),
        start_b=module("import os\n\nB = os"),
        tool_c=module("import os\nfrom shlex import join\n\nC = os, join"),
    )
    assert joined.imports.splitlines() == [
        "from time import (",
        " monotonic,",
        ")",
        "import os",
        "import sys",
    ]
    assert "import" not in joined.first
    assert joined.deferred["tool"].startswith("from shlex import join\nimport os\n\n#")


def test_a_guarded_import_is_kept_whole(join: Join) -> None:
    guard = "try:\n    from _json import x\nexcept ImportError:\n    x = None"
    joined = join(start_a=module(f"import os\n\n{guard}\n\nA = x"))
    assert joined.imports == "import os\ntry:\n from _json import x\nexcept ImportError:\n x = None"


def test_what_is_for_type_checkers_goes(join: Join) -> None:
    code = (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from typing import Any\n"
        "    from mcpagg_runtime.tool.none import Nothing\n\nA: Any = 1"
    )
    joined = join(start_a=module(code))
    assert (joined.imports, joined.first.splitlines()[-1]) == ("", "A = 1")


@pytest.mark.parametrize("names", ["L", "(\n        L,\n        M,\n    )"])
def test_an_import_of_a_later_part_loads_it_with_all_that_it_imports(
    join: Join, names: str
) -> None:
    joined = join(
        start_a=module(
            f"def f():\n    from mcpagg_runtime.modern.late import {names}\n\n    return L"
        ),
        serve_low=module("low = 1"),
        modern_late=module("from mcpagg_runtime.serve.low import low\n\nL = M = low"),
    )
    assert 'def f():\n load_part("modern")\n return L' in joined.first
    assert joined.deferred["modern"].startswith('load_part("serve")\n\n# modern')
    assert "load_part" not in joined.deferred["serve"]


def test_an_import_of_the_standard_library_within_a_function_stays(join: Join) -> None:
    joined = join(start_a=module("def f():\n    import re\n\n    return re"))
    assert " import re" in joined.first


def test_a_module_can_be_left_out_by_name(join: Join) -> None:
    modules = {
        "serve_a": module("from mcpagg_runtime.serve.b import b\n\ndef f():\n    return b()"),
        "serve_b": module("import os\n\ndef b():\n    return os"),
    }
    assert "def b" in join(**modules).deferred["serve"]
    left = join(("b",), **modules).deferred["serve"]
    assert "def f" in left
    assert "def b" not in left
    assert "import os" not in left
    with pytest.raises(BundleError, match="no module to leave out: none"):
        join(("b", "none"), **modules)


# --- Keeping ----------------------------------------------------------------------------------


@pytest.fixture
def keep(join: Join, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Join:
    """Return a function that joins modules as another process would, which Python lets keep."""
    (tmp_path / "package" / "__pycache__").mkdir()
    monkeypatch.setattr("sys.dont_write_bytecode", False)

    def kept(**modules: str) -> Bundle:
        all_taken_apart.cache_clear()
        return join(**modules)

    return kept


def kept_files() -> list[Path]:
    """Return what is kept."""
    return [*Path(str(resources.files(PACKAGE))).glob("__pycache__/*")]


def test_modules_are_taken_apart_once_for_all_processes(
    keep: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = module("from time import (\n    sleep,\n)\n\nA = sleep")
    first = keep(start_a=code, serve_b=module("from mcpagg_runtime.start.a import A\n\nB = A"))
    monkeypatch.setattr("mcpagg.modules.taken_apart", None)
    assert keep() == first
    assert len(kept_files()) == 1


def test_what_is_kept_of_another_source_or_cannot_be_read_does_not_count(keep: Join) -> None:
    assert "A = 1" in keep(start_a=module("A = 1")).first
    assert "A = 2" in keep(start_a=module("A = 2")).first
    (file,) = kept_files()
    kept = file.read_bytes()
    changed = kept.replace(b"A = 2", b"A = 3")
    for spoilt in (b"", b"[]", b"[" * 100_000, b"\xff", kept[:-9], kept + b" ", changed):
        file.write_bytes(spoilt)
        assert "A = 2" in keep().first


def test_nothing_is_kept_where_python_keeps_no_bytecode(
    keep: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert "A = 1" in keep(start_a=module("A = 1")).first
    assert kept_files() == []


# --- Loading ----------------------------------------------------------------------------------


def emitted(file: Path, serve: str, after: str) -> None:
    """Write a file of the loader and a part."""
    source = Path(str(loader.__file__)).read_text("utf-8")
    file.write_text(f"{source}\ndefine_part('serve', r'''\n{serve}''')\n{after}\n", "utf-8")


def test_a_traceback_shows_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    emitted(file, "def f():\n    raise ValueError('here')\n", "load_part('serve')\nf()")
    (number,) = [n for n, line in enumerate(file.read_text().splitlines(), 1) if "'here'" in line]
    assert f'"{file}", line {number}, in f\n    raise ValueError' in run(file).stderr


def test_a_part_inherits_nothing_of_how_the_file_is_compiled(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    emitted(file, "def f() -> Any: ...\n", "load_part('serve')")
    assert "NameError" in run(file).stderr


def test_a_part_is_loaded_once_whoever_asks(tmp_path: Path) -> None:
    part = "import time\nloaded.append(1)\ntime.sleep(0.01)\n"
    threads = "ts = [threading.Thread(target=load_part, args=('serve',)) for _ in range(8)]"
    ask = f"import threading\nloaded = []\n{threads}\nfor t in ts: t.start()\nfor t in ts: t.join()"
    file = tmp_path / "server.py"
    emitted(file, part, f"{ask}\nload_part('serve')\nprint(loaded)")
    assert run(file).stdout == "[1]\n"


@posix("Windows has no such limit")
def test_a_part_is_loaded_where_only_the_spare_descriptor_is_left(tmp_path: Path) -> None:
    spare = "import os, resource\nSPARE.append(os.open(os.devnull, os.O_RDONLY))\n"
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (SPARE[0] + 1,) * 2)\nload_part('serve')"
    file = tmp_path / "server.py"
    emitted(file, "os.open(os.devnull, os.O_RDONLY)\nprint('loaded')\n", spare + limit)
    assert run(file).stdout == "loaded\n"


def test_a_part_that_does_not_load_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    again = (
        "try:\n    load_part('serve')\nexcept NameError:\n    x = 1\nload_part('serve')\nprint(y)"
    )
    emitted(file, "y = x\n", again)
    assert run(file).stdout == "1\n"


# --- Refusals ---------------------------------------------------------------------------------


WRITE = "write `from mcpagg_runtime.part.module import name`"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print(1)", "a:5: only definitions stand in a module"),
        ("for x in ():\n    pass", "a:5: only definitions stand in a module"),
        ("if True:\n    A = 1", "a:5: only definitions stand in a module"),
        ("A = 1\n\nA += 1", "a:7: only definitions stand in a module"),
        ("import mcpagg_runtime.serve.b", WRITE),
        ("from mcpagg_runtime import serve", WRITE),
        ("from mcpagg_runtime.serve import b", WRITE),
        ("from mcpagg_runtime.other.b import B", WRITE),
        ("from mcpagg_runtime.serve.b import B as C", WRITE),
        ("from mcpagg_runtime.serve.b import *", WRITE),
        ("from .b import B", WRITE),
        ("def f():\n    import mcpagg_runtime.serve.b", WRITE),
        ("from mcpagg_runtime.tool.late import L", "a:5: import what is in the later part tool"),
        (
            "def f():\n    from mcpagg_runtime.serve.b import B",
            "a:6: an import of serve stands at the top of a module in serve",
        ),
        (
            "def f():\n    from mcpagg_runtime.start.first import F",
            "a:6: an import of start stands at the top of a module in serve",
        ),
        ("from mcpagg_runtime.serve.b import B\n\nB = 2", "a: B is also defined in serve/b"),
        ("from os import B", "b: B is also defined in the import of os.B"),
        (
            "try:\n    from os import B\nexcept ImportError:\n    from posix import B",
            "b: B is also defined in the import of os.B",
        ),
        ("def F(): ...", "a: F is also defined in start/first"),
        ("F, G = 1, 2", "a: F is also defined in start/first"),
        ("A = '''x'''", "a: three single quotes, which end a deferred part"),
        ("from mcpagg_runtime.serve.circle import C", "imported in a circle by a -> circle"),
        ("from mcpagg_runtime.serve.none import N", "a: imports none, and there is no such module"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_its_place(
    join: Join, code: str, problem: str
) -> None:
    with pytest.raises(BundleError) as caught:
        join(
            start_first=module("F = 1"),
            serve_a=module(code),
            serve_b=module("B = 1\nC = 2"),
            serve_circle=module("from mcpagg_runtime.serve.a import A\n\nD = A"),
            tool_late=module("L = 1"),
        )
    assert problem in str(caught.value)


def test_no_text_of_the_runtime_is_taken_for_a_secret(real: Bundle) -> None:
    """As detect-secrets looks for them: random as base64 is, and not given to a function."""
    quoted = re.compile(r"""(?<!\()(["'])([A-Za-z0-9+/=_-]{20,})\1""")
    for source in sources(real):
        for _, text in quoted.findall(source):
            shares = [text.count(char) / len(text) for char in set(text)]
            assert -sum(share * math.log2(share) for share in shares) < 4.5, text
