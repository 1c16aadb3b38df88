"""The structure of the code in figures: modules, lines, imports, classes, what one call touches.

    python tests/structure.py            a table
    python tests/structure.py --json     the same for programs

What a call touches is counted on the runtime's own modules, with a profiler in every thread, for
each pairing of eras: calls are made twice as often in a second run, and what that adds is the call.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proxies import compiled
from wire import Wire, call, enveloped, initialize, modern_entry, stub_entry

import mcpagg
import mcpagg_runtime

PARTS = {"compiler": mcpagg, "runtime": mcpagg_runtime}
CALLS = 5


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


def lines(package: Any) -> int:
    """Return how many lines a package has, templates included."""
    root = Path(str(package.__file__)).parent
    files = [*root.rglob("*.py"), *root.rglob("*.j2")]
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def arrows(trees: Mapping[str, ast.Module], *, late: bool) -> dict[str, set[str]]:
    """Return {module: the modules that it imports}; with `late`, also within functions."""
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        nodes = ast.walk(tree) if late else iter(tree.body)
        found[name] = {
            node.module or ""
            for node in nodes
            if isinstance(node, ast.ImportFrom) and (node.module or "") in trees
        }
    return found


def floors(graph: Mapping[str, set[str]]) -> int:
    """Return the length of the longest chain of imports."""
    heights: dict[str, int] = {}

    def height(name: str, above: tuple[str, ...] = ()) -> int:
        if name not in heights:
            below = [height(n, (*above, name)) for n in graph[name] if n not in (*above, name)]
            heights[name] = 1 + max(below, default=0)
        return heights[name]

    return max(height(name) for name in graph)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
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


def classes(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each class with its module's name."""
    for module, tree in trees.items():
        yield from ((module, node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def depth(trees: Mapping[str, ast.Module]) -> tuple[int, str]:
    """Return the longest chain of classes of ours that inherit from each other, and its end."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for _, node in classes(trees)
    }

    def chain(name: str) -> int:
        return 1 + max([chain(base) for base in bases[name] if base in bases], default=0)

    longest = max(bases, key=chain)
    return chain(longest), longest


def static(package: Any) -> dict[str, Any]:
    """Return what the text of a package tells."""
    trees = modules(package)
    sizes = {
        f"{module.rpartition('.')[2]}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module, node in classes(trees)
    }
    largest = max(sizes, key=lambda name: sizes[name])
    levels, deepest = depth(trees)
    return {
        "modules": len(trees),
        "lines": lines(package),
        "floors": floors(arrows(trees, late=False)),
        "circles": len(circles(arrows(trees, late=True))),
        "circles at import": len(circles(arrows(trees, late=False))),
        "inheritance": f"{levels} ({deepest})",
        "largest class": f"{sizes[largest]} ({largest})",
    }


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
        tool = {"name": "echo", "inputSchema": {"type": "object"}}
        entry = (modern_entry if modern_child else stub_entry)(tools=[tool])
        file = compiled(folder, {"s": entry})
        few = touched(file, folder, CALLS, modern=modern_client)
        many = touched(file, folder, 2 * CALLS, modern=modern_client)
    more = {key: (many[key] - few[key]) / CALLS for key in many if many[key] - few[key] >= CALLS}
    return {"modules": len({module for module, _ in more}), "functions": round(sum(more.values()))}


def main() -> None:
    """Print the figures."""
    found: dict[str, Any] = {name: static(package) for name, package in PARTS.items()}
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
            print(f"  {name:20} {value}")


if __name__ == "__main__":
    main()
