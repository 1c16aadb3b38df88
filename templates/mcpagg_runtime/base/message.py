"""JSON-RPC messages: read from lines, passed on as objects, printed once where they leave.

A message keeps the JSON text of each of its members, so that a result, an error or arguments pass
through unread. Only ids, names and progress tokens are ever replaced.

Source of the framing rules: MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.base.jsontext import (
    BLANK,
    Malformed,
    members,
    obj,
    parse,
    place_of,
    read_members,
    skip,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcpagg_runtime.base.jsontext import Members, Span

    Id = int | str

# What a peer writes without ever ending the line would otherwise fill the memory.
MAXIMUM_LINE_BYTES = 1 << 28

# Of a longer line, the members of params and of a result are noted while it is read. In a shorter
# one, they are looked for by whoever wants them: that takes less than to note them all.
NOTED = 1 << 13

_BOM = b"\xef\xbb\xbf"
_PRINTED = ("params", "result", "error")


_UNREAD: Any = object()


class Json:
    """One JSON value: its text, and what has been read of it.

    The text may be a part of a longer one; it is cut out when first asked for. The value is parsed
    when first asked for, if it has not been read with what surrounds it.
    """

    __slots__ = ("_base", "_end", "_members", "_source", "_start", "_value", "distinct")

    def __init__(
        self,
        source: str,
        start: int = 0,
        end: int = -1,
        value: Any = _UNREAD,
        inner: Members | None = None,
        *,
        distinct: bool = False,
    ) -> None:
        """`value` and `inner`, the members of an object, are given if they have been read.

        `distinct`: no two of these members have one name.
        """
        self.distinct = distinct
        self._source = source
        self._start = self._base = start
        self._end = end if end >= 0 else len(source)
        self._value = value
        self._members = inner

    @property
    def text(self) -> str:
        """The JSON text."""
        if self._end - self._start < len(self._source):
            self._source = self._source[self._start : self._end]
            self._start, self._end = 0, len(self._source)
        return self._source

    @property
    def value(self) -> Any:
        """The value; one that came in a large text was read a few levels deep, see `outline`."""
        if self._value is _UNREAD:
            self._value = parse(self.text)
        return self._value

    def _noted(self) -> Members:
        """Return the members of an object, with their places relative to `_base`."""
        if self._members is None:
            self._base = 0
            self._members, _ = members(self.text)
        return self._members

    def names_once(self, name: str) -> bool:
        """Whether it is known that this member stands once, in whatever case, or not at all."""
        if not self.distinct:
            return False
        return all(other == name or other.casefold() != name for other in self._noted())

    def place(self, path: tuple[str, ...]) -> Span:
        """Return where the value that `path` leads to stands in the text, (0, 0) if nowhere."""
        found = self._noted().get(path[0])
        if found is None:
            return 0, 0
        start, end = found[1] - self._base, found[2] - self._base
        if len(path) == 1:
            return start, end
        begin, stop = place_of(self.text[start:end], path[1:])
        return (start + begin, start + stop) if stop else (0, 0)

    def part(self, *path: str) -> str:
        """Return the JSON text of the value that `path` leads to, "" if there is none."""
        start, end = self.place(path)
        return self.text[start:end]


class Message:
    """One JSON-RPC message.

    It is read from a line or composed here, handed on as an object, and printed by `line`, once.
    """

    __slots__ = ("_line", "_prepared", "members", "method")

    def __init__(self, members_: dict[str, Json], method: str | None = None) -> None:
        self.members = members_
        """Its members by name; that of the method may be left out."""
        self.method = method
        """None for a response."""
        self._line = b""
        self._prepared: Message | None = None

    @property
    def id(self) -> Id | None:
        """Its id, None if it has none, or an illegal one."""
        identifier = self.members["id"].value if "id" in self.members else None
        return identifier if is_id(identifier) else None

    def raw(self, member: str) -> str:
        """Return the JSON text of a member, "" if the message has none of that name."""
        return self.members[member].text if member in self.members else ""

    def value(self, member: str) -> Any:
        """Return the parsed value of a member, None if the message has none of that name."""
        return self.members[member].value if member in self.members else None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, {} where they are absent, null or not an object."""
        params = self.value("params")
        return params if type(params) is dict else {}

    @property
    def params_text(self) -> str:
        """The JSON text of the parameters, {} where they are absent, null or not an object."""
        return self.raw("params") if type(self.value("params")) is dict else "{}"

    def json(self, member: str) -> Json:
        """Return a member that is an object, an empty one where it is absent or something else."""
        json = self.members.get(member, _EMPTY)
        return json if type(json.value) is dict else _EMPTY

    @property
    def is_error(self) -> bool:
        """Whether a response is an error; one with both members is, unless the error is null."""
        return self.value("error") is not None

    @property
    def is_response(self) -> bool:
        """Whether an object without a method or an id is meant as an answer: some log JSON."""
        problem = self.value("error")
        shaped = type(problem) is dict and type(problem.get("code")) is int
        return shaped or (
            "jsonrpc" in self.members and (problem is not None or "result" in self.members)
        )

    @property
    def code(self) -> int | None:
        """The code of an error response, None if it has none that is an integer."""
        problem = self.value("error")
        code = problem.get("code") if type(problem) is dict else None
        return code if type(code) is int else None

    def changed(self, texts: Mapping[str, str]) -> Message:
        """Return the message with other JSON texts for some of its members."""
        changed = {name: Json(text) for name, text in texts.items()}
        return Message({**self.members, **changed}, self.method)

    def under(self, identifier: str) -> Message:
        """Return the response under another id, a JSON text; what it says is not copied."""
        if self._prepared is not None and self._prepared.raw("id") == identifier:
            return self._prepared
        return self._renumbered(identifier)

    def _renumbered(self, identifier: str) -> Message:
        name = "error" if self.is_error else "result"
        said = self.members.get(name, _EMPTY)
        return Message({"id": Json(identifier), name: said})

    def may_name_uris(self) -> bool:
        """Whether there may be members called `uri` in a response."""
        return '"uri"' in self.raw("result")

    def prepare(self, identifier: str) -> None:
        """Print a large response under another id now, for `under` to return it."""
        self._prepared = self.under(identifier)
        self._prepared.line()

    def set_line(self, line: bytes) -> None:
        """Have it sent as this line, which says the same."""
        self._line = line

    def line(self) -> bytes:
        """Return the line that the message is sent as."""
        if not self._line:
            found = self.members
            parts = ['{"jsonrpc":"2.0"']
            if "id" in found:
                parts += [',"id":', found["id"].text]
            if self.method is not None:
                parts += [',"method":', quote(self.method)]
            for name in _PRINTED:
                if name in found:
                    parts += [',"', name, '":', found[name].text]
            parts.append("}\n")
            self._line = "".join(parts).encode("utf-8")
        return self._line


_EMPTY = Json("{}", value={})


def is_id(value: object) -> bool:
    """Whether a value is a legal request id or progress token: an integer or a string.

    By type(), not isinstance: True is an int, and an over-long number is kept as a str.
    """
    return type(value) is int or type(value) is str


def read_message(text: str) -> Message:
    """Read one message from its text.

    Raises:
        NotAnObject: it is JSON, but no object.
        Malformed: it is not JSON.
    """
    start = skip(text, 0)
    if text[start : start + 1] != "{":
        parse(text)
    found: Members = {}
    inner: dict[str, Members] = {"params": {}, "result": {}} if len(text) > NOTED else {}
    end = read_members(text, start, found, inner=inner)
    if skip(text, end) != len(text):
        raise Malformed(f"unexpected text at character {end}")
    method = found["method"][0] if "method" in found else None
    return Message(
        {name: Json(text, a, b, v, inner.get(name)) for name, (v, a, b) in found.items()},
        method if type(method) is str else None,
    )


def minted(identifier: object) -> int:
    """Return the id of ours that a peer answers to, 0 for none; some write 7 as "7" or 7.0."""
    if type(identifier) is int:
        return identifier
    if type(identifier) is str and len(identifier) < 19 and identifier.isascii():
        return int(identifier) if identifier.isdigit() else 0
    return int(identifier) if type(identifier) is float and identifier.is_integer() else 0


def id_text(identifier: Id) -> str:
    """Return the JSON text of a request id."""
    return quote(identifier) if type(identifier) is str else str(identifier)


def request(identifier: int | str, method: str, params: str = "") -> Message:
    """Return a request; `params` is JSON text, "" for none."""
    members_ = {"id": Json(id_text(identifier), value=identifier)}
    if params:
        members_["params"] = Json(params)
    return Message(members_, method)


def notification(method: str, params: str = "") -> Message:
    """Return a notification; `params` is JSON text, "" for none."""
    return Message({"params": Json(params)} if params else {}, method)


def result(identifier: str, value: str | Json) -> Message:
    """Return a response; `identifier` is JSON text, and so may `value` be."""
    json = value if isinstance(value, Json) else Json(value)
    return Message({"id": Json(identifier), "result": json})


def failure(identifier: str, error: str) -> Message:
    """Return an error response; `identifier` and `error` are JSON text."""
    return Message({"id": Json(identifier), "error": Json(error)})


def error(code: int, message: str, data: str = "") -> str:
    """Return the text of an error object; `data` is JSON text, "" for none."""
    tail = {"data": data} if data else {}
    return obj(code=str(code), message=quote(message), **tail)


class Lines:
    """Cuts a byte stream into lines: only byte 0x0A ends one.

    Of a line that comes in pieces and is longer than MAXIMUM_LINE_BYTES, nothing is kept: as soon
    as it is, `too_long` is called, once, and what follows is skipped up to its end.
    """

    def __init__(self, too_long: Callable[[], object] = lambda: None) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._too_long = too_long

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the lines that they complete, without their ends."""
        if b"\n" not in data:
            self._keep(data)
            return []
        lines = data.split(b"\n")
        if self.size:
            self._keep(lines[0])
            lines[0] = b"".join(self.parts)
            if self.size > MAXIMUM_LINE_BYTES:
                del lines[0]
        rest = lines.pop()
        self.parts = [rest] if rest else []
        self.size = len(rest)
        return lines

    def _keep(self, data: bytes) -> None:
        """Keep a piece of a line, unless the line is too long by now."""
        was_short = self.size <= MAXIMUM_LINE_BYTES
        self.size += len(data)
        if self.size <= MAXIMUM_LINE_BYTES:
            self.parts.append(data)
        elif was_short:
            self.parts = []
            self._too_long()

    def rest(self) -> bytes:
        """Return what stands behind the last line end."""
        return b"".join(self.parts)


def decode(line: bytes) -> str:
    """Return the text of a line, "" for a blank one; one leading BOM and one trailing CR go.

    Raises:
        Malformed: it is not UTF-8.
    """
    try:
        return line.removeprefix(_BOM).decode("utf-8").strip(BLANK)
    except UnicodeDecodeError as problem:
        raise Malformed(f"not UTF-8 at byte {problem.start}") from None
