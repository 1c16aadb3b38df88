"""Joining the runtime's modules: nothing is lost, the order holds, and bad style is refused."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from mcpagg import bundle as bundling
from mcpagg.bundle import Bundle, BundleError, bundle

Modules = Callable[..., Bundle]


@pytest.fixture(scope="module")
def real() -> Bundle:
    """Join the real runtime."""
    return bundle("main")


@pytest.fixture
def join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    """Return a function that joins modules {name: source}, the first one as the entry."""
    folder = tmp_path / "package"
    folder.mkdir()
    monkeypatch.setattr(resources, "files", lambda _: folder)

    def joined(**modules: str) -> Bundle:
        modules.setdefault("folding", '"""Folds."""\n\ndef unfold(modules, last):\n    pass\n')
        for name, source in modules.items():
            (folder / f"{name}.py").write_text(source, "utf-8")
        return bundle(next(iter(modules)))

    return joined


def module(code: str = "", heading: str = "Does something.") -> str:
    """Return the source of a module."""
    return f'"""{heading}"""\n\nfrom __future__ import annotations\n\n{code}\n'


def sources(joined: Bundle) -> list[str]:
    """Return all the source in a bundle."""
    return [joined.imports, joined.modules, *joined.deferred.values()]


def statements(source: str) -> Iterator[str]:
    """Yield the definitions of a module, as the parser sees them."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
            yield ast.dump(node)


# --- The real runtime -------------------------------------------------------------------------


def test_every_definition_of_the_runtime_is_in_the_bundle(real: Bundle) -> None:
    found = {dump for source in sources(real) for dump in statements(source)}
    modules = resources.files(bundling.PACKAGE)
    joined = [line.split()[1].rstrip(":") for line in real.modules.splitlines() if is_heading(line)]
    for name in [*joined, *real.deferred]:
        source = modules.joinpath(f"{name}.py").read_text("utf-8")
        # A deferred import is another statement in the bundle.
        lines = [unfolded(line) for line in source.splitlines()]
        missing = [dump for dump in statements("\n".join(lines)) if dump not in found]
        assert missing == [], name


def unfolded(line: str) -> str:
    """Return a line as the bundle has it."""
    indent = line[: len(line) - len(line.lstrip())]
    start = f"from {bundling.PACKAGE}."
    if indent and line.strip().startswith(start):
        name = line.strip().removeprefix(start).split()[0]
        return f'{indent}unfold(FOLDED, "{name}")'
    return line


def is_heading(line: str) -> bool:
    """Whether a line is the heading of a module."""
    words = line.split()
    return line.startswith("# ") and len(words) > 2 and words[1] in modules_by_colon()


def modules_by_colon() -> set[str]:
    """Return the names of all modules, each with a colon."""
    folder = resources.files(bundling.PACKAGE)
    return {f"{path.name.removesuffix('.py')}:" for path in folder.iterdir()}


def test_comments_and_blank_lines_of_the_runtime_are_kept(real: Bundle) -> None:
    everything = "\n".join(sources(real))
    source = resources.files(bundling.PACKAGE).joinpath("router.py").read_text("utf-8")
    comments = [line for line in source.splitlines() if line.strip().startswith("#")]
    assert comments
    assert [line for line in comments if line not in everything] == []


def test_a_start_needs_no_module_that_only_children_need(real: Bundle) -> None:
    assert {"relay", "router", "process", "commands"} <= set(real.deferred)
    assert "class Answers" in real.modules
    assert "class Router" not in real.modules


def test_no_import_of_the_package_is_left(real: Bundle) -> None:
    for source in sources(real):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("mcpagg")
        assert "TYPE_CHECKING" not in source


def test_no_name_is_used_before_its_module_stands(real: Bundle, tmp_path: Path) -> None:
    """The bundle runs, all modules included, and a start loads no slow module."""
    file = tmp_path / "joined.py"
    file.write_text(
        "from __future__ import annotations\n"
        f"{real.imports}\nFOLDED = {real.deferred!r}\n{real.modules}\n"
        "slow = {'re', 'json', 'typing', 'enum', 'threading', 'subprocess', 'asyncio'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "while FOLDED:\n    unfold(FOLDED, next(reversed(FOLDED)))\n"
        "assert Router and Relay and run_command\n"
    )
    command = [sys.executable, "-I", "-S", "-W", "error", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_joining_twice_gives_the_same(real: Bundle) -> None:
    assert bundle("main") == real


# --- Joining ----------------------------------------------------------------------------------


def test_a_module_stands_behind_all_that_it_needs(join: Modules) -> None:
    joined = join(
        top=module("from mcpagg_runtime.mid import m\nfrom mcpagg_runtime.low import low\n\nT = m"),
        mid=module("from mcpagg_runtime.low import low\n\nm = low"),
        low=module("low = 1"),
    )
    assert [joined.modules.index(text) for text in ("low = 1", "m = low", "T = m")] == sorted(
        joined.modules.index(text) for text in ("low = 1", "m = low", "T = m")
    )
    assert joined.modules.count("low = 1") == 1
    assert joined.deferred == {}


def test_the_first_line_of_a_docstring_becomes_the_heading(join: Modules) -> None:
    joined = join(a=module("A = 1", heading="Says it.\n\nAnd more."))
    assert "# a: Says it." in joined.modules
    assert "And more" not in joined.modules


def test_imports_of_the_standard_library_are_gathered_once_and_sorted(join: Modules) -> None:
    joined = join(
        a=module("import sys\nfrom time import (\n    monotonic,\n)\nimport os\n\nA = 1").replace(
            "A = 1", "from mcpagg_runtime.b import B\n\nA = B"
        ),
        b=module("import os\n\nB = os"),
    )
    assert joined.imports.splitlines() == [
        "from time import (",
        "    monotonic,",
        ")",
        "import os",
        "import sys",
    ]
    assert "import" not in joined.modules


def test_a_guarded_import_is_kept_whole(join: Modules) -> None:
    guard = "try:\n    from _json import x\nexcept ImportError:\n    x = None"
    joined = join(a=module(f"import os\n\n{guard}\n\nA = x"))
    assert joined.imports == f"import os\n{guard}"


def test_what_is_for_type_checkers_goes(join: Modules) -> None:
    code = (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from typing import Any\n"
        "    from mcpagg_runtime.none import Nothing\n\nA: Any = 1"
    )
    joined = join(a=module(code))
    assert (joined.imports, joined.modules.splitlines()[-1]) == ("", "A: Any = 1")


def test_a_module_imported_within_a_function_is_deferred_with_all_that_it_needs(
    join: Modules,
) -> None:
    code = "def f():\n    from mcpagg_runtime.late import L\n\n    return L"
    joined = join(
        a=module(f"from mcpagg_runtime.low import low\n\n{code}"),
        low=module("low = 1"),
        late=module("import os\nfrom mcpagg_runtime.later import M\n\nL = M, os"),
        later=module("from mcpagg_runtime.low import low\n\nM = low"),
    )
    assert list(joined.deferred) == ["later", "late"]
    assert joined.deferred["late"] == "import os\n\nL = M, os\n"
    assert 'def f():\n    unfold(FOLDED, "late")\n\n    return L' in joined.modules
    assert "low = 1" in joined.modules
    assert "def unfold" in joined.modules
    assert "import os" not in joined.imports


def test_an_import_of_the_standard_library_within_a_function_stays(join: Modules) -> None:
    joined = join(a=module("def f():\n    import re\n\n    return re"))
    assert "    import re" in joined.modules
    assert joined.deferred == {}


# --- Refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print(1)", "a:5: only definitions stand in a module"),
        ("for x in ():\n    pass", "a:5: only definitions stand in a module"),
        ("if True:\n    A = 1", "a:5: only definitions stand in a module"),
        ("A = 1\n\nA += 1", "a:7: only definitions stand in a module"),
        ("import mcpagg_runtime.b", "write `from mcpagg_runtime.module import name`"),
        ("from mcpagg_runtime import b", "write `from mcpagg_runtime.module import name`"),
        ("from mcpagg_runtime.b import B as C", "write `from mcpagg_runtime.module import name`"),
        ("from mcpagg_runtime.b import *", "write `from mcpagg_runtime.module import name`"),
        ("from .b import B", "write `from mcpagg_runtime.module import name`"),
        (
            "def f():\n    from mcpagg_runtime.b import (\n        B,\n    )",
            "a:6: a deferred import stands on one line",
        ),
        ("from mcpagg_runtime.b import B\n\nB = 2", "a: B is also defined in b"),
        ("def f():\n    from mcpagg_runtime.b import C\n\ndef B(): ...", "B is also defined in"),
        ("A = '''x'''", "a: three single quotes, which end a deferred module"),
        ("from mcpagg_runtime.circle import C", "imported in a circle by a -> circle"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_its_place(
    join: Modules, code: str, problem: str
) -> None:
    with pytest.raises(BundleError) as caught:
        join(
            a=module(code),
            b=module("B = 1\nC = 2"),
            circle=module("from mcpagg_runtime.a import A\n\nC = A"),
        )
    assert problem in str(caught.value)
