"""What is left of the runtime's source: the same program, without what only its authors need."""

from __future__ import annotations

import ast
from importlib import resources

import pytest

from mcpagg.modules import PACKAGE, PARTS
from mcpagg.stripping import Source

MODULES = [
    file
    for part in PARTS
    for file in resources.files(PACKAGE).joinpath(part).iterdir()
    if file.name.endswith(".py")
]


def stripped(text: str) -> str:
    """Return what is left of a text."""
    source = Source(text)
    source.strip()
    return source.rest()


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
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Make it a plain assignment, if it assigns anything."""
        if node.value is None:
            return node
        return ast.Assign(targets=[node.target], value=node.value, lineno=0)

    @staticmethod
    def is_silent(node: ast.stmt) -> bool:
        """Whether a statement does nothing."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return isinstance(node.value.value, str)
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
    ],
)
def test_what_only_authors_need_goes(text: str, left: str) -> None:
    assert stripped(text) == left


def test_something_else_may_stand_in_place_of_a_statement() -> None:
    source = Source("def f():\n    from a import (\n        b,\n    )\n\n    return b\n")
    [function] = source.tree.body
    assert isinstance(function, ast.FunctionDef)
    assert source.of(function.body[0]) == "from a import (\n        b,\n    )"
    source.cut(function.body[0], "load()")
    assert source.rest() == "def f():\n load()\n return b\n"
