"""One entry of a config, as text that can be edited: JSON, YAML or TOML.

What is outside of the entry is never touched, and every edit is proved: the new text is read as the
config was, and must say what was meant, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagg.install import tree
from mcpagg.install.toml_text import Table, find_table, statements
from mcpagg.install.tree import (
    Node,
    Path,
    Span,
    Uneditable,
    any_shared,
    json_tree,
    value_at,
    yaml_tree,
)
from mcpagg.passes.config import document as documents
from mcpagg.problems import CompileError

_TREES = {"JSON": json_tree, "YAML": yaml_tree}


class Config:
    """The text of a config, `source` its name, and the value that it holds.

    Raises:
        ConfigError: it cannot be read.
    """

    def __init__(self, data: bytes, source: str) -> None:
        self.data = data
        self.source = source
        self.value: Any = documents.parse(data, source)
        self.text = data.decode("utf-8")  # with its mark of the order of bytes, if it has one
        self.format = documents.format_of(documents.decoded_text(data, source), source).name
        self._tree: Node | None = None

    def at(self, path: Path) -> Any:
        """Return the value at a path, None if nothing stands there."""
        return value_at(self.value, path)

    def entry(self, path: Path) -> Entry:
        """Return the text of an entry.

        Raises:
            Uneditable: it cannot be changed safely.
        """
        if self.format == "TOML":
            return self._of_toml(path)
        if self._tree is None:
            self._tree = _TREES[self.format](self.text)
        node = tree.at(self._tree, path)
        if node is None or node.members is None:
            raise Uneditable("it is merged from another place")
        if any_shared(node):
            raise Uneditable("it uses an anchor or an alias of YAML")
        start, end = node.span
        column = start - self.text.rfind("\n", 0, start) - 1 if node.is_block else 0
        return Entry(self.format, self.text[start:end], node.span, column)

    def _of_toml(self, path: Path) -> Entry:
        for one in statements(self.text):
            if one.path == path and one.value is not None:
                if one.value.members is None or any_shared(one.value):
                    raise Uneditable("its inline table has dotted keys")
                raise Uneditable("it is an inline table")
        span = find_table(self.text, path)
        return Entry("TOML", self.text[span.start : span.end], span)

    def replaced(self, texts: Mapping[Path, str]) -> Config:
        """Return the config with other texts for some entries.

        Raises:
            Uneditable: it could not be read then, or would say something else elsewhere.
        """
        text = self.text
        for span, new in sorted(
            ((self.entry(path).span, new) for path, new in texts.items()), reverse=True
        ):
            text = text[: span.start] + new + text[span.end :]
        try:
            config = Config(text.encode("utf-8"), self.source)
        except CompileError:
            raise Uneditable("its text could not be read any more") from None
        if _without(config.value, texts) != _without(self.value, texts):
            raise Uneditable("other entries would change as well")
        return config


def _without(value: Any, paths: Any, here: Path = ()) -> Any:
    """Return a value in which what stands at some paths is left out."""
    if here in paths:
        return None
    if isinstance(value, dict):
        return [(key, _without(member, paths, (*here, key))) for key, member in value.items()]
    if isinstance(value, list):
        return [_without(item, paths, (*here, index)) for index, item in enumerate(value)]
    return value


class Entry:
    """The text of an entry, and where it stands in its config; edits change the text alone.

    `column` is where it begins in its line, if its own lines are meant from there.
    """

    def __init__(self, format: str, text: str, span: Span, column: int = 0) -> None:
        self.format = format
        self.text = text
        self.span = span
        self.column = column

    @property
    def value(self) -> Any:
        """What the text says.

        Raises:
            Uneditable: it cannot be read any more.
        """
        source = f"entry.{self.format.lower()}"
        try:
            value: Any = documents.parse(self._whole.encode("utf-8"), source)
        except CompileError:
            raise Uneditable("its text could not be read any more") from None
        if self.format != "TOML":
            return value
        for step in self._table().header.path:
            value = value[step]
        return value

    def put(self, path: Path, value: Any, after: str = "") -> None:
        """Set what stands at a path below the entry; a new member comes behind `after`, or first.

        Raises:
            Uneditable: the text has no safe place for it.
        """
        if self.format == "TOML":
            self.text = self._table().put(path, value, after)
            return
        *outer, key = path
        node = self._node(tuple(outer))
        if node is None or node.members is None:
            self.put(tuple(outer), {str(key): value}, after)
        else:
            self._become(tree.put(self._whole, node, str(key), value, after))

    def remove(self, path: Path) -> None:
        """Remove what stands at a path below the entry."""
        if self.format == "TOML":
            self.text = self._table().remove(path)
            return
        node = self._node(path[:-1])
        if node is not None and node.members and path[-1] in node.members:
            self._become(tree.remove(self._whole, node, str(path[-1])))

    def span_of(self, path: Path) -> Span | None:
        """Return where a value below the entry stands in its text, None if nothing is there."""
        if self.format == "TOML":
            table = self._table()
            node = table.node(path)
            return node.span if node else None
        node = self._node(path)
        return Span(node.span.start - self.column, node.span.end - self.column) if node else None

    @property
    def _whole(self) -> str:
        return " " * self.column + self.text

    def _become(self, whole: str) -> None:
        self.text = whole[self.column :]

    def _node(self, path: Path) -> Node | None:
        return tree.at(_TREES[self.format](self._whole), path)

    def _table(self) -> Table:
        return Table(self.text)
