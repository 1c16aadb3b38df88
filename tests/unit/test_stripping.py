"""What is left of the runtime's source: the same program, without what only its authors need."""

from __future__ import annotations

import ast
from importlib import resources

import pytest

from mcpagg.passes.emission.bundle import PACKAGE
from mcpagg.passes.emission.stripping import stripped

MODULES = [
    file
    for folder in resources.files(PACKAGE).iterdir()
    if folder.is_dir()
    for file in folder.iterdir()
    if file.name.endswith(".py")
]


class Bare(ast.NodeTransformer):
    """What stripping promises, done to the tree instead of the text."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Drop docstrings and annotations of a node and of all within it."""
        super().generic_visit(node)
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [each for each in body if not self.is_silent(each)]
            is_module = isinstance(node, ast.Module)
            node.body = kept if kept or is_module else [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Make it a plain assignment, if it assigns anything."""
        if node.value is None:
            return node
        return ast.Assign(targets=[node.target], value=node.value, lineno=0)

    @staticmethod
    def is_silent(node: ast.stmt) -> bool:
        """Whether a statement does nothing when it is run, or is for type checkers."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return isinstance(node.value.value, str)
        if isinstance(node, ast.If):
            return ast.unparse(node.test) == "TYPE_CHECKING"
        if isinstance(node, ast.ImportFrom):
            return node.module in ("__future__", "typing")
        return isinstance(node, ast.AnnAssign)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_stripped_text_is_the_same_program(file: resources.abc.Traversable) -> None:
    text = file.read_text("utf-8")
    left = stripped(text)
    assert ast.dump(ast.parse(left)) == ast.dump(Bare().visit(ast.parse(text)))
    assert not [line for line in left.splitlines() if line.strip().startswith("#")]
    assert "\n\n\n" not in left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('"""A module."""\n\nX: int = 1  # why\n', "X = 1\n"),
        (
            'def f(a: int, *b: str, c: "x" = 2, **d: T) -> None:\n    """Do."""\n',
            "def f(a, *b, c=2, **d):\n pass\n",
        ),
        (
            'class A:\n    """Doc."""\n\n    x: int\n    """Its doc."""\n\n    y = "#"  # not #\n',
            'class A:\n y = "#"\n',
        ),
        ("X: int = (\n    1\n)\n", "X = (\n 1\n)\n"),
        (
            "A = 1\n\n\n@b\ndef f():\n    # why\n    return 'é # x'  # é\n\n\nB = 2\n",
            "A = 1\n\n@b\ndef f():\n return 'é # x'\nB = 2\n",
        ),
        ("def f(a: 'é' = 'é', b: int = 0) -> 'é': ...\n", "def f(a='é', b=0): ...\n"),
        (
            "async def f(\n    a: dict[str, int] = {1: 2},\n    *,\n"
            "    b: 'x, y' = lambda c, d: 1,\n) -> Callable[[int], A]:\n"
            "    x: A = [\n        {'y': 1},\n    ]\n",
            "async def f(\n a={1: 2},\n *,\n b=lambda c, d: 1,\n):\n x = [\n  {'y': 1},\n ]\n",
        ),
        (
            'class A:\n    x: int\n\n    class B:\n        """Doc.\n\n        # 1.\n        """\n\n'
            "    self.x: A | None = None\n    if self.x:\n        y: int\n",
            "class A:\n class B:\n  pass\n self.x = None\n if self.x:\n  pass\n",
        ),
        (
            "from __future__ import annotations\n\nimport os\nfrom typing import (\n    A,\n)\n\n"
            "if TYPE_CHECKING:\n    from a import b\n\n    C = b\n\nD = {\n    E: 1,  # why\n}\n",
            "import os\nD = {\n E: 1,\n}\n",
        ),
    ],
)
def test_what_only_authors_need_goes(text: str, left: str) -> None:
    assert stripped(text) == left
