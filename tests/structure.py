"""The structure of the code in figures: modules, lines, imports, classes, what one call touches.

    python tests/structure.py            a table
    python tests/structure.py --json     the same for programs

Imports are told apart by when they are made; an arrow leads from one module to another, and runs
back up where its folder lies lower than that of the other in the order in which fewest do. What a
call touches is counted on the runtime's own modules, with a profiler in every thread, for
each pairing of eras: calls are made twice as often in a second run, and what that adds is the call.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from proxies import compiled
from wire import Wire, call, enveloped, initialize, modern_entry, stub_entry

import mcpagg
import mcpagg_runtime

Graph = Mapping[str, set[str]]
PARTS = {"compiler": mcpagg, "runtime": mcpagg_runtime}
CALLS = 5
BESIDE = ("remote", "http", "tool", "frozen")
"""The folders of the runtime that a reader of the core on stdio need not know."""
MODERN = ("modern",)
"""Those of the era without handshakes, which are told apart."""


def modules(package: Any) -> dict[str, ast.Module]:
    """Return {dotted name: syntax tree} of all modules of a package."""
    root = Path(str(package.__file__)).parent
    return {
        ".".join([package.__name__, *path.relative_to(root).with_suffix("").parts]): ast.parse(
            path.read_text("utf-8")
        )
        for path in sorted(root.rglob("*.py"))
        if path.read_text("utf-8").strip() and path.name != "__init__.py"
    }


def lines(package: Any, folders: Container[str] | None = None) -> int:
    """Return how many lines a package has, templates included, or these folders of it."""
    root = Path(str(package.__file__)).parent
    files = [*root.rglob("*.py"), *root.rglob("*.j2")]
    return sum(
        len(path.read_text("utf-8").splitlines())
        for path in files
        if folders is None or path.relative_to(root).parts[0] in folders
    )


def folder_of(module: str) -> str:
    """Return the folder in which a module lies, "" for that of the package."""
    return ".".join(module.split(".")[1:-1])


# Imports


class Imports(ast.NodeVisitor):
    """The imports of one module, by when they are made."""

    def __init__(self, tree: ast.Module) -> None:
        self.first: set[str] = set()
        """When the module is imported."""
        self.late: list[str] = []
        """In a function, once for each place."""
        self.typing: set[str] = set()
        """Never: only a type checker reads them."""
        self._add: Callable[[str], object] = self.first.add
        self.visit(tree)

    def _within(self, add: Callable[[str], object], nodes: Iterable[ast.AST]) -> None:
        outside, self._add = self._add, add
        for node in nodes:
            self.visit(node)
        self._add = outside

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """See the library."""
        self._within(self.late.append, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """See the library."""
        self.visit_FunctionDef(node)

    def visit_If(self, node: ast.If) -> None:
        """See the library."""
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        self._within(self.typing.add if is_typing else self._add, node.body)
        self._within(self._add, node.orelse)

    def visit_Import(self, node: ast.Import) -> None:
        """See the library."""
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """See the library."""
        self._add(node.module or "")


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in graph[todo.pop()] - seen:
                seen.add(name)
                todo.append(name)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in graph if other in reach[name] and name in reach[other]))
        for name in graph
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def floors(graph: Graph) -> int:
    """Return the length of the longest chain of imports."""
    heights: dict[str, int] = {}

    def height(name: str, above: tuple[str, ...] = ()) -> int:
        if name not in heights:
            below = [height(n, (*above, name)) for n in graph[name] if n not in (*above, name)]
            heights[name] = 1 + max(below, default=0)
        return heights[name]

    return max(height(name) for name in graph)


def between(graph: Graph) -> list[tuple[str, str]]:
    """Return the arrows of a graph that lead from one folder to another."""
    return sorted(
        (one, other)
        for one, others in graph.items()
        for other in others
        if folder_of(one) != folder_of(other)
    )


def storeys(graph: Graph) -> list[str]:
    """Return the folders in that order, lowest first, in which the fewest arrows run back up."""
    arrows = Counter((folder_of(one), folder_of(other)) for one, other in between(graph))
    folders = sorted({folder_of(name) for name in graph})
    best: dict[frozenset[str], tuple[int, list[str]]] = {frozenset(): (0, [])}
    for _ in folders:
        longer: dict[frozenset[str], tuple[int, list[str]]] = {}
        for placed, (back, order) in best.items():
            for folder in folders:
                if folder in placed:
                    continue
                more = sum(arrows[folder, o] for o in folders if o not in placed and o != folder)
                found = back + more, [*order, folder]
                key = placed | {folder}
                longer[key] = min(longer.get(key, found), found)
        best = longer
    return best[frozenset(folders)][1]


def back_up(graph: Graph, order: list[str]) -> list[str]:
    """Return the arrows of a graph that run back up in an order of the folders."""
    return [
        f"{one.partition('.')[2]} -> {other.partition('.')[2]}"
        for one, other in between(graph)
        if order.index(folder_of(one)) < order.index(folder_of(other))
    ]


# Sizes


def largest(sizes: Mapping[str, int]) -> str:
    """Return the largest of some sizes, and whose it is."""
    name = max(sizes, key=lambda one: sizes[one])
    return f"{sizes[name]} ({name})"


def sizes_of(trees: Mapping[str, ast.Module], *kinds: type) -> dict[str, int]:
    """Return {module.name: lines} of the classes or functions of all modules."""
    return {
        f"{module.partition('.')[2]}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }


def depth(trees: Mapping[str, ast.Module]) -> str:
    """Return the longest chain of classes of ours that inherit from each other, and its end."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def chain(name: str) -> int:
        return 1 + max([chain(base) for base in bases[name] if base in bases], default=0)

    return largest({name: chain(name) for name in bases})


def static(package: Any) -> dict[str, Any]:
    """Return what the text of a package tells."""
    trees = modules(package)
    imports = {name: Imports(tree) for name, tree in trees.items()}
    first = {name: found.first & trees.keys() for name, found in imports.items()}
    run = {name: first[name] | ({*found.late} & trees.keys()) for name, found in imports.items()}
    late = {name: run[name] - first[name] for name in imports}
    typing = {name: found.typing & trees.keys() for name, found in imports.items()}
    order = storeys(run)
    own = sum(name in trees for found in imports.values() for name in found.late)
    return {
        "modules": len(trees),
        "lines": lines(package),
        "largest module": largest(
            {name.partition(".")[2]: tree.body[-1].end_lineno or 0 for name, tree in trees.items()}
        ),
        "largest class": largest(sizes_of(trees, ast.ClassDef)),
        "longest function": largest(sizes_of(trees, ast.FunctionDef, ast.AsyncFunctionDef)),
        "inheritance": depth(trees),
        "floors": floors(first),
        "circles": len(circles(run)),
        "circles at import": len(circles(first)),
        "imports in functions": f"{sum(len(found.late) for found in imports.values())} ({own} own)",
        "folders, lowest first": " ".join(folder or "." for folder in order),
        "arrows back up": back_up(first, order),
        "late arrows back up": back_up(late, order),
        "arrows back up for types": len(back_up(typing, order)),
    }


def core() -> dict[str, str]:
    """Return what a reader of the runtime must hold who wants to know the core on stdio."""
    trees = modules(mcpagg_runtime)
    folders = {folder_of(name) for name in trees}
    parts = {
        "without either": folders - {*BESIDE, *MODERN},
        "modern": {*MODERN},
        "beside it": {*BESIDE},
    }
    return {
        what: f"{sum(folder_of(name) in part for name in trees)} modules, "
        f"{lines(mcpagg_runtime, part):,} lines"
        for what, part in parts.items()
    }


# What a call touches

DRIVER = """
import _thread, collections, json, os, sys

file, report = sys.argv.pop(1), sys.argv.pop(1)
counts = collections.Counter()

def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename == file:
        name = frame.f_globals["__name__"].partition(".")[2] or "start"
        counts[name, frame.f_code.co_qualname] += 1

start = _thread.start_new_thread

def profiled(function, arguments):
    def run():
        sys.setprofile(note)
        function(*arguments)
    return start(run, ())

_thread.start_new_thread = profiled
import posix
leave = os._exit

def dump(status):
    sys.setprofile(None)
    with open(report, "w") as written:
        json.dump([[*key, count] for key, count in counts.items()], written)
    leave(status)

os._exit = posix._exit = dump
code = compile(open(file).read(), file, "exec")
sys.setprofile(note)
exec(code, {"__name__": "__main__", "__file__": file})
"""


def touched(file: Path, folder: Path, count: int, *, modern: bool) -> Counter[tuple[str, str]]:
    """Return how often each function ran in a session of `count` calls: {(module, function): n}."""
    driver, report = folder / "driver.py", folder / "report.json"
    driver.write_text(DRIVER)
    with Wire([sys.executable, str(driver), str(file), str(report)]) as wire:
        if modern:
            for _ in range(count):
                params = enveloped({"name": "s:echo", "arguments": {"text": "x"}})
                wire.request("tools/call", params)
        else:
            initialize(wire)
            for _ in range(count):
                call(wire, "s:echo", text="x")
        wire.end_input()
        wire.wait()
    return Counter({(module, name): n for module, name, n in json.loads(report.read_text())})


def a_call(*, modern_client: bool, modern_child: bool) -> dict[str, int]:
    """Return what one call touches on a warm proxy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema = {"type": "object"}
        tool = {"name": "echo", "description": "Echoes.", "inputSchema": schema}
        entry = (modern_entry if modern_child else stub_entry)(tools=[tool])
        file = compiled(folder, {"s": entry})
        few = touched(file, folder, CALLS, modern=modern_client)
        many = touched(file, folder, 2 * CALLS, modern=modern_client)
    more = {key: (many[key] - few[key]) / CALLS for key in many if many[key] - few[key] >= CALLS}
    return {"modules": len({module for module, _ in more}), "functions": round(sum(more.values()))}


def main() -> None:
    """Print the figures."""
    found: dict[str, Any] = {name: static(package) for name, package in PARTS.items()}
    found["a reader of the core on stdio, of the runtime"] = core()
    for client in ("legacy", "modern"):
        for child in ("legacy", "modern"):
            found[f"a call, {client} client, {child} server"] = a_call(
                modern_client=client == "modern", modern_child=child == "modern"
            )
    if "--json" in sys.argv:
        json.dump(found, sys.stdout, indent=1)
        return
    for what, figures in found.items():
        print(what)
        for name, value in figures.items():
            listed = isinstance(value, list)
            print(f"  {name:24} {len(value) if listed else value}")
            for one in value if listed else ():
                print(f"    {one}")


if __name__ == "__main__":
    main()
