"""The runtime of an emitted file: which modules it has, and how Python imports them from it."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path

import pytest
from compilations import of_snapshot
from goldens import GOLDEN, cases, emitted
from proxies import posix

from mcpagg.options import Options
from mcpagg.passes.emission import bundle as bundling
from mcpagg.passes.emission.bundle import (
    PACKAGE,
    Bundle,
    BundleError,
    bundle,
    package_name,
    runtime_digest,
)
from mcpagg.passes.emission.emission import PARTS
from mcpagg.passes.emission.readback import cut, read_tables
from mcpagg.passes.emission.stripping import stripped
from mcpagg.snapshot import ChildSnapshot, Snapshot
from mcpagg_runtime.start import embedded as loader

Make = Callable[..., Bundle]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def real() -> Bundle:
    """Return the real runtime."""
    return bundle()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes a bundle of modules {folder_name: source}."""

    def made(without: tuple[str, ...] = (), template: str = "", **modules: str) -> Bundle:
        texts = {name.replace("_", "."): stripped(modules[name]) for name in sorted(modules)}
        monkeypatch.setattr(bundling, "_modules", lambda: texts)
        monkeypatch.setattr(bundling, "_template", lambda: template)
        return bundle(without)

    return made


def run(file: Path, *code: str) -> subprocess.CompletedProcess[str]:
    """Run a Python file alone, or code in its folder; warnings are errors."""
    command = [sys.executable, "-S", "-W", "error", *(code or ["-I", str(file)])]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent)


# --- The real runtime -------------------------------------------------------------------------


def test_every_module_is_in_the_bundle(real: Bundle) -> None:
    files = [
        f"{folder.name}.{file.name.removesuffix('.py')}"
        for folder in resources.files(PACKAGE).iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".py") and file.name != "__init__.py"
    ]
    code = re.findall(r"^# (\w+)/(\w+)\.py$", real.code, re.MULTILINE)
    assert sorted(files) == sorted([*real.texts, *(".".join(names) for names in code)])
    assert {folder for folder, _ in code} == {loader.START}
    late = [name for name in real.texts if name.startswith(f"{loader.START}.")]
    assert late == ["start.digest", "start.embedded", "start.lists", "start.own", "start.waiting"]


EVERY = """
import builtins
import functools
import sys

import server

builtins.compile = functools.cache(compile)  # what is imported again and again is compiled once

slow = {'re', 'json', 'typing', 'enum', 'threading', 'subprocess', 'asyncio'} & set(sys.modules)
assert not slow, slow
assert not [name for name in sys.modules if name.startswith('_mcpagg_')]
for name in server.RUNTIME:
    if not name.startswith('windows.'):
        for other in [other for other in sys.modules if other.startswith('_mcpagg_')]:
            del sys.modules[other]
        __import__(f'PACKAGE.{name}')
""".replace("PACKAGE", package_name())


SNAPSHOT = Snapshot((ChildSnapshot("a", "2025-11-25"),))
REMOTE = b'{"mcpServers": {"a": {"url": "https://example.com/mcp"}}}'
FILES: dict[str, Callable[[], str]] = {
    **{case.name: partial(emitted, case) for case in cases()},
    "over http": partial(emitted, GOLDEN / "plain", serve="stdio,http"),
    "remote": lambda: of_snapshot(
        REMOTE, Snapshot((ChildSnapshot("a", "2025-11-25"),)), Options()
    ).text,
}


@pytest.mark.parametrize("file", FILES)
def test_every_module_of_a_file_can_be_imported_first(file: str, tmp_path: Path) -> None:
    """An import of one that is left out would be a fault of ours; and a start imports none."""
    text = FILES[file]()
    (tmp_path / "server.py").write_text(text, encoding="utf-8")
    done = run(tmp_path / "server.py", "-c", EVERY)
    assert (done.returncode, done.stderr) == (0, "")
    sections = cut(text)
    assert sections is not None
    modules = read_tables(text, ("RUNTIME",))["RUNTIME"]
    for name in PARTS:
        there = [other for other in modules if f"{other}.".startswith(f"{name}.")]
        assert bool(there) == (name in sections.parts)


def test_the_same_is_made_twice(real: Bundle) -> None:
    assert bundle() == real
    assert package_name() == f"_mcpagg_{runtime_digest().removeprefix('sha256:')[:8]}"


def test_no_text_of_the_runtime_is_taken_for_a_secret(real: Bundle) -> None:
    """As detect-secrets looks for them: random as base64 is, and not given to a function."""
    quoted = re.compile(r"""(?<!\()(["'])([A-Za-z0-9+/=_-]{20,})\1""")
    for source in (real.code, *real.texts.values()):
        for _, text in quoted.findall(source):
            shares = [text.count(char) / len(text) for char in set(text)]
            assert -sum(share * math.log2(share) for share in shares) < 4.5, text


# --- Which modules ----------------------------------------------------------------------------


def test_a_file_has_what_its_code_and_the_template_lead_to(make: Make) -> None:
    late = "def f():\n    from mcpagg_runtime.a.{0} import (\n        X,\n    )\n"
    made = make(
        template="x\n    from mcpagg_runtime.a.two import Y\n",
        start_main=late.format("one"),
        a_one="from mcpagg_runtime.a.three import Z\n\nX = Z\n",
        a_two=late.format("four"),
        a_three="Z = 1\n",
        a_four="X = 1\n",
        b_five="W = 1\n",
    )
    assert [*made.texts] == ["a.four", "a.one", "a.three", "a.two"]


def test_what_is_left_out_takes_along_what_nothing_else_imports(make: Make) -> None:
    late = "    from mcpagg_runtime.{0} import x\n\n"
    modules = {
        "start_main": f"def f():\n{late.format('a.one')}{late.format('b.three')}",
        "a_one": "from mcpagg_runtime.a.two import x\n",
        "a_two": "x = 1\n",
        "b_three": "from mcpagg_runtime.b.four import x\n",
        "b_four": "x = 1\n",
    }
    assert [*make(("a.one",), **modules).texts] == ["b.four", "b.three"]
    assert [*make(("b",), **modules).texts] == ["a.one", "a.two"]
    with pytest.raises(BundleError, match=r"a\.one: cannot be imported without a\.two"):
        make(("a.two",), **modules)
    with pytest.raises(BundleError, match=r"no module to leave out: c, d\.one"):
        make(("a.one", "c", "d.one"), **modules)


def test_what_not_every_start_needs_is_run_when_it_is_asked_for(make: Make) -> None:
    late = "def f():\n    from mcpagg_runtime.start.{0} import x\n\n    return x\n"
    made = make(
        start_main=late.format("late")
        + "\n\n"
        + late.format("low").replace("f()", "g()")
        + "from mcpagg_runtime.start.low import x\n",
        start_low="x = 1\n",
        start_late="from mcpagg_runtime.start.low import x\n"
        "from mcpagg_runtime.start.more import y\n",
        start_more="y = 1\n",
    )
    run = 'def f():\n run_late("start.late")\n return x\n\ndef g():\n return x\n'
    assert made.code == f"# start/low.py\nx = 1\n\n# start/main.py\n{run}"
    assert made.texts == {"start.late": 'run_late("start.more")\n', "start.more": "y = 1\n"}
    with pytest.raises(BundleError, match=r"start\.late: holds mcpagg_runtime"):
        make(
            start_main=late.format("late"),
            start_late="def g():\n    from mcpagg_runtime.a.one import x\n",
            a_one="x = 1\n",
        )


def test_imports_of_one_another_do_not_depend_on_the_name_of_the_package(make: Make) -> None:
    made = make(
        start_main="from mcpagg_runtime.start.low import low\n\n\n"
        "def f():\n    from mcpagg_runtime.a.one import x\n\n    return x, low\n",
        start_low="import os\n\nlow = os\n",
        a_one="from mcpagg_runtime.start.low import low\nfrom mcpagg_runtime.a.two import (\n"
        "    y,\n)\n\nx = low, y\n",
        a_two="y = 1\n",
    )
    code = "def f():\n from mcpagg_runtime.a.one import x\n return x, low\n"
    assert made.code == f"# start/low.py\nimport os\nlow = os\n\n# start/main.py\n\n{code}"
    one = "from ..start.low import low\nfrom ..a.two import (\n y,\n)\nx = low, y\n"
    assert made.texts == {"a.one": one, "a.two": "y = 1\n"}


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ('A = r"""x"""', 'a.one: holds """'),
        ("import mcpagg_runtime.a.one", "a.one: holds mcpagg_runtime"),
        ("from mcpagg_runtime.a import one", "a.one: holds mcpagg_runtime"),
        ("from mcpagg_runtime.a.none import N", "a.none: is imported, and there is no such module"),
    ],
)
def test_what_no_file_can_hold_is_refused(make: Make, code: str, problem: str) -> None:
    with pytest.raises(BundleError) as caught:
        make(start_main="def f():\n    from mcpagg_runtime.a.one import x\n", a_one=f"{code}\n")
    assert str(caught.value) == problem


# --- Importing them ---------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file of the loader and of modules {folder_name: text}."""

    def written(after: str, package: str = "_mine", name: str = "server", **texts: str) -> Path:
        entries = [
            f'    "{module.replace("_", ".")}": r"""\n{text}""",\n'
            for module, text in texts.items()
        ]
        source = Path(str(loader.__file__)).read_text("utf-8")
        embed = f'embed("{package}", RUNTIME, globals(), sys._getframe().f_lineno - 1)'
        file = tmp_path / f"{name}.py"
        file.write_text(
            f"{source}\nRUNTIME = {{\n{''.join(entries)}}}\n{embed}\n{after}\n", "utf-8"
        )
        return file

    return written


def number_of(text: str, file: Path) -> int:
    """Return the number of the line of a file that has a text."""
    [number] = [n for n, line in enumerate(file.read_text().splitlines(), 1) if text in line]
    return number


def test_a_traceback_shows_the_line_of_the_file(write: Write) -> None:
    module = "def f():\n    raise ValueError('here')\n"
    file = write("from _mine.a.one import f\nf()", a_zero="\n\n\n", a_one=module, a_two="X = 1\n")
    number = number_of("'here'", file)
    assert f'"{file}", line {number}, in f\n    raise ValueError' in run(file).stderr


def test_the_source_of_what_is_imported_can_be_read(write: Write) -> None:
    after = "import inspect\nfrom _mine.a.one import f\nprint(inspect.getsource(f), end='')"
    file = write(after, a_one="x = 1\ndef f():\n return 'here'\n")
    assert run(file).stdout == "def f():\n return 'here'\n"


def test_a_module_inherits_nothing_of_how_the_file_is_compiled(write: Write) -> None:
    assert "NameError" in run(write("import _mine.a.one", a_one="def f() -> Any: ...\n")).stderr


def test_a_module_is_run_once_whoever_asks(write: Write) -> None:
    module = "import sys, time\nsys.ran.append(1)\ntime.sleep(0.01)\nX = 1\n"
    ask = (
        "import threading\nsys.ran, got = [], []\n"
        "def ask():\n    from _mine.a.two import X\n    got.append(X)\n"
        "ts = [threading.Thread(target=ask) for _ in range(8)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()\nprint(sys.ran, sum(got))"
    )
    assert run(write(ask, a_one=module, a_two="from .one import X\n")).stdout == "[1] 8\n"


@posix("Windows has no such limit")
def test_a_module_is_run_where_only_the_spare_descriptor_is_left(write: Write) -> None:
    spare = "import os, resource\nSPARE.append(os.open(os.devnull, os.O_RDONLY))\n"
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (SPARE[0] + 1,) * 2)\nimport _mine.a.one"
    module = "import os\nos.open(os.devnull, os.O_RDONLY)\nprint('loaded')\n"
    assert run(write(spare + limit, a_one=module)).stdout == "loaded\n"


def test_a_module_that_could_not_be_run_is_tried_again(write: Write) -> None:
    again = (
        "sys.x = None\ntry:\n    import _mine.a.one\nexcept TypeError:\n    sys.x = 1\n"
        "from _mine.a.one import y\nprint(y)"
    )
    assert run(write(again, a_one="import sys\ny = sys.x + 1\n")).stdout == "2\n"


def test_what_the_file_does_not_have_is_not_found(write: Write) -> None:
    after = (
        "from importlib import import_module\n"
        "for name in ('a.two', 'b.one', 'a.one.more', 'start'):\n"
        "    try:\n        print(import_module(f'_mine.{name}').__name__)\n"
        "    except ImportError as fault:\n        print(fault)"
    )
    assert run(write(after, a_one="X = 1\n")).stdout.splitlines() == [
        "No module named '_mine.a.two'",
        "No module named '_mine.b.one'",
        "No module named '_mine.a.one.more'; '_mine.a.one' is not a package",
        "_mine.start",
    ]


def test_the_code_of_the_file_is_imported_like_a_module(write: Write) -> None:
    after = "from _mine.a.one import spare\nassert spare is SPARE\nprint('same')"
    module = "from ..start.embedded import SPARE as spare\n"
    assert run(write(after, a_one=module)).stdout == "same\n"


def test_two_files_live_in_one_process(write: Write) -> None:
    module = "from ..start.embedded import NAME\ndef f():\n from .two import X\n return NAME + X\n"
    for name in ("one", "two"):
        names = f'NAME = "{name}"\n' + "def f():\n    from _{0}.a.one import f\n    return f()"
        write(names.format(name), f"_{name}", name, a_one=module, a_two=f'X = "-{name}"\n')
    file = write("import one, two\nprint(one.f(), two.f())", name="both")
    assert run(file, "both.py").stdout == "one-one two-two\n"


HOW = {
    "import": "import server\nget = server.__getattr__\n",
    "path": "import runpy\nget = runpy.run_path('server.py')['__getattr__']\n",
    "unregistered": "import importlib.util as util\n"
    "spec = util.spec_from_file_location('other', 'server.py')\n"
    "server = util.module_from_spec(spec)\nspec.loader.exec_module(server)\n"
    "get = server.__getattr__\n",
}


@pytest.mark.parametrize("how", HOW)
def test_a_file_can_be_imported_in_every_way(how: str, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(emitted(GOLDEN / "plain"), encoding="utf-8")
    done = run(file, "-c", f"{HOW[how]}print(get('Aggregator').__module__)")
    assert (done.stdout, done.stderr) == (f"{package_name()}.tool.aggregator\n", "")
