"""The pages: what they name is there, and they are short enough to be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pages import MAKERS, pages_with_parts, proxy_parser, renewed

from mcpagg.clients import PLACES
from mcpagg.command.arguments import Run
from mcpagg.command.arguments import argument_parser as compiler_parser
from mcpagg.options import Options, flag_of, options_of
from mcpagg.passes.config.dialects import DIALECTS

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "templates" / "mcpagg_runtime"
COMPILER = ROOT / "compiler" / "mcpagg"
CODE = ("templates/mcpagg_runtime", "compiler/mcpagg", "tests")

FOLDERS = ("templates/*.md", "compiler/*.md", "tests/**/*.md", "generated/*.md", "*.md")
"""Where pages are."""

LONGEST_PAGE = 345
LONGEST_TOP_PAGE = 120
LONGEST_LINE = 100
LONGEST_CORE = 120
"""The lines of "The core in an hour"."""

TEST = re.compile(
    r"`(?:tests/[a-z0-9]+/)?(?:test_)?([a-z0-9_]+?)(?:\.py)?::(?:test_)?([a-z0-9_]+)`"
)
"""A test, as pytest has it or in short: `tests/unit/test_a.py::test_b` or `a::b`."""

MEMBER = re.compile(r"`(\w+)\.(\w+)(?:\([^`]*\))?`")
"""What a module or a class defines: `a.b`, `A.b` or `A.b(…)`."""

CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)

MODULE = re.compile(r"`((?:\w+/)+\w+\.(?:py|mjs))`")
"""A module, with its folder."""

OWNED = re.compile(r"^[ │├└]*(\w+) +(\w+/\w+\.py) ", re.MULTILINE)
"""A line of a tree of what owns what: a class, and the module that defines it."""

LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
"""A link to a page of ours, and the heading that it leads to."""

FOLDER = re.compile(r"^\*\*(\w+)/\*\* (.*?)\n\n(.*?)(?=^\*\*\w+/\*\*|^#|\Z)", re.M | re.S)
"""What the map says of a folder: its name, what it is about, a line for each module."""

PART = re.compile(r"^\*\*([\w/]+)/\*\*.*\n\n((?:[- ] .*\n)+)", re.MULTILINE)
"""What the map of the compiler says of a folder: its path, its modules."""

LISTED = re.compile(r"^- `(\w+)`(°?) \S.*$", re.MULTILINE)
"""A module in the map, and whether it does I/O."""

BOUND = re.compile(r"^\| [^|]* \| ([^|]*) \| [^|]* \| `\w+::.*\|$", re.MULTILINE)
"""A row of a table of bounds: the modules that keep it."""

COMMAND = re.compile(r"(mcpagg-compile|server\.py)((?:\\\n|[^\n`])*)")
"""A command of the compiler, or of an emitted file, with what stands behind it in its line."""

FLAG = re.compile(r"(?<![\w-])--?[a-z][\w-]*")

FILES = ("json", "md", "mjs", "py")
"""What stands behind a dot in the name of a file."""


def pages(folders: tuple[str, ...]) -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in sorted(ROOT.glob(folder))
    ]


PAGES = pages(FOLDERS)
CONTRIBUTORS = [page for page in PAGES if page.startswith(("templates/", "compiler/", "tests/"))]
"""Pages that name what is in the code; others name what users write."""


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@cache
def known_tests() -> set[tuple[str, str]]:
    found = set()
    for path in ROOT.glob("tests/*/test_*.py"):
        name = path.stem.removeprefix("test_")
        found |= {(name, test) for test in re.findall(r"def test_(\w+)", path.read_text("utf-8"))}
    return found


def _definitions(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef):
            owner = node.name if isinstance(node, ast.ClassDef) else path.stem
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield owner, inner.name
                elif isinstance(getattr(inner, "ctx", None), ast.Store):
                    yield owner, getattr(inner, "id", "") or getattr(inner, "attr", "")


@cache
def definitions(path: Path) -> set[tuple[str, str]]:
    """Return (module or class, name) for all that a module and its classes name."""
    return set(_definitions(path))


@cache
def owners() -> dict[str, list[Path]]:
    """Return {module or class: where it is}, without the time that it takes to parse all code."""
    found: dict[str, list[Path]] = {}
    for folder in CODE:
        for path in (ROOT / folder).glob("**/*.py"):
            for name in {path.stem, *CLASS.findall(path.read_text("utf-8"))}:
                found.setdefault(name, []).append(path)
    return found


def is_defined(owner: str, name: str) -> bool:
    return any((owner, name) in definitions(path) for path in owners().get(owner, ()))


@cache
def modules() -> dict[str, set[str]]:
    """Return {folder of the runtime: its modules}."""
    return {
        init.parent.name: {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        for init in RUNTIME.glob("*/__init__.py")
    }


def the_map() -> dict[str, tuple[str, str]]:
    """Return {folder: (what the map says of it, the lines of its modules)}."""
    _, _, rest = read("templates/README.md").partition("\n## The map\n")
    shown = FOLDER.findall(rest.partition("\n## ")[0])
    return {folder: (" ".join(about.split()), listed) for folder, about, listed in shown}


def slug(heading: str) -> str:
    """Return the name by which a link leads to a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower())
    return plain.replace(" ", "-")


def headings(page: Path) -> set[str]:
    return {slug(found) for found in re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)}


# What is named


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_is_there(page: str) -> None:
    assert set(TEST.findall(read(page))) - known_tests() == set()


@pytest.mark.parametrize("page", CONTRIBUTORS)
def test_every_function_that_is_named_is_there(page: str) -> None:
    """Pages on the compiler and the tests name members of configs, and variables, in this way."""
    named = {pair for pair in MEMBER.findall(read(page)) if pair[1] not in FILES}
    if not page.startswith("templates/"):
        named = {(owner, name) for owner, name in named if owner in owners()}
    assert {pair for pair in named if not is_defined(*pair)} == set()


@pytest.mark.parametrize("page", CONTRIBUTORS)
def test_every_module_that_is_named_is_there(page: str) -> None:
    named = MODULE.findall(read(page))
    roots = [ROOT, *(ROOT / folder for folder in CODE)]
    assert [one for one in named if not any((root / one).exists() for root in roots)] == []


@pytest.mark.parametrize("page", pages(("templates/*.md",)))
def test_every_class_of_a_tree_is_in_its_module(page: str) -> None:
    for name, module in OWNED.findall(read(page)):
        assert f"\nclass {name}" in (RUNTIME / module).read_text("utf-8"), (name, module)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    here = ROOT / page
    for target, heading in LINK.findall(read(page)):
        path = here.parent / target if target else here
        assert path.exists(), target
        assert not heading or heading in headings(path), heading


# The map of the runtime


def test_the_map_has_every_module_in_its_folder() -> None:
    shown = {
        folder: {name for name, _ in LISTED.findall(listed)}
        for folder, (_, listed) in the_map().items()
    }
    assert shown == modules()


def test_the_map_says_of_a_folder_what_its_docstring_says() -> None:
    for folder, (about, _) in the_map().items():
        text = (RUNTIME / folder / "__init__.py").read_text("utf-8")
        assert (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0] == about


def test_the_map_marks_what_does_io() -> None:
    layers = (ROOT / "tests/unit/test_layers.py").read_text("utf-8")
    _, _, rest = layers.partition("\nWITH_IO = {\n")
    single = set(re.findall(r'^    "(\w+\.\w+)",$', rest.partition("\n}\n")[0], re.MULTILINE))
    marked = {
        f"{folder}.{name}"
        for folder, (_, listed) in the_map().items()
        for name, mark in LISTED.findall(listed)
        if mark
    }
    assert marked == single


@pytest.mark.parametrize("page", pages(("templates/*.md",)))
def test_the_modules_that_keep_a_bound_are_there(page: str) -> None:
    known = {name for names in modules().values() for name in names}
    for cell in BOUND.findall(read(page)):
        assert {name.rpartition("/")[2] for name in re.findall(r"`([^`]+)`", cell)} <= known


# The map of the compiler


def test_every_module_of_the_compiler_is_in_its_folder() -> None:
    shown = {
        folder: {
            name
            for line in listed.splitlines()
            if line.startswith("- ")
            for name in re.findall(r"`(\w+)`", line.partition(":")[0])
        }
        for page in pages(("compiler/*.md",))
        for folder, listed in PART.findall(read(page))
    }
    there: dict[str, set[str]] = {}
    for path in COMPILER.rglob("*.py"):
        if not path.stem.startswith("_"):
            folder = path.parent.relative_to(COMPILER).as_posix()
            there.setdefault(COMPILER.name if folder == "." else folder, set()).add(path.stem)
    assert shown == there


# What users are told of


@pytest.mark.parametrize("path", pages_with_parts(), ids=lambda path: path.name)
def test_what_a_page_has_from_the_code_is_up_to_date(path: Path) -> None:
    """`python tests/pages.py` writes it anew."""
    text = path.read_text("utf-8")
    assert text == renewed(text)


@pytest.mark.parametrize("maker", MAKERS)
def test_everything_that_is_made_for_a_page_is_in_one(maker: str) -> None:
    texts = [path.read_text("utf-8") for path in pages_with_parts()]
    assert sum(f"pages.py: {maker} -->" in text for text in texts) == 1


def flags(command: str) -> set[str]:
    """Return the options of what begins a command, and not of another one behind it."""
    return set(FLAG.findall(re.split(r"[;&|#\])]", command)[0]))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_has_options_that_are_there(page: str) -> None:
    known = {
        "mcpagg-compile": set(compiler_parser()._option_string_actions),
        "server.py": set(proxy_parser()._option_string_actions),
    }
    for program, behind in COMMAND.findall(read(page)):
        assert flags(behind) - known[program] == set(), behind


def test_every_option_is_in_its_table() -> None:
    text = read("compiler/OPTIONS.md")
    for name, (how, _) in (options_of(Run) | options_of(Options)).items():
        for flag in how.flags or (flag_of(name),):
            assert re.search(
                rf"^\| .*`{flag.upper() if flag == name else flag}[ `]", text, re.M
            ), flag


def test_every_client_whose_config_is_found_is_named() -> None:
    named = set(re.findall(r"[\w-]+", read("generated/DESKTOP.md")))
    assert PLACES.keys() - named == set()


@pytest.mark.parametrize("dialect", [row.name for row in DIALECTS])
def test_every_dialect_is_named_where_configs_are_described(dialect: str) -> None:
    """By what its name begins with: of "Gemini CLI", "Gemini"."""
    client = re.sub("^(recipes|agents) of ", "", dialect).partition(" ")[0].rstrip(",")
    assert re.search(rf"(?<!\w){re.escape(client)}(?!\w)", read("compiler/CONFIG.md"))


# Their size


def paragraphs(page: str) -> list[str]:
    """Return the lines of a page outside of tables and code."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    return [line for line in text.splitlines() if not line.startswith("|")]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_no_longer_than_one_reads(page: str) -> None:
    assert len(read(page).splitlines()) <= LONGEST_PAGE


def test_the_top_page_is_one_that_a_visitor_reads() -> None:
    lines = read("README.md").splitlines()
    assert len(lines) <= LONGEST_TOP_PAGE
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_wrapped(page: str) -> None:
    """A long word, such as the name of a test, may stand alone in its line."""
    long = [line for line in paragraphs(page) if len(line) > LONGEST_LINE]
    assert [line for line in long if " " in re.sub(r"`[^`]*`", "", line.strip())] == []


def test_the_core_is_one_page() -> None:
    _, _, rest = read("templates/README.md").partition("\n## The core in an hour\n")
    assert len(rest.partition("\n## ")[0].splitlines()) <= LONGEST_CORE
