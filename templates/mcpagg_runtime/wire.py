"""JSON-RPC lines: cut from a byte stream, taken apart by their text, put together again.

A message keeps the JSON text of its members, so that a result, an error or arguments pass through
unread: numbers, key order, duplicate keys, lone surrogates and unknown members stay as the sender
wrote them. Only ids, names and progress tokens are ever replaced.

Source of the framing rules: MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    # The C scanner behind the json module; importing json itself costs a start 14 ms (it needs re).
    from _json import encode_basestring_ascii, make_scanner, scanstring
except ImportError:  # an interpreter without the accelerator: slower, the same
    from json.decoder import scanstring  # type: ignore[attr-defined,no-redef]
    from json.encoder import encode_basestring_ascii
    from json.scanner import make_scanner

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Scanner = Callable[[str, int], tuple[Any, int]]
    Span = tuple[int, int]
    Id = int | str

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022  # of the revision without a handshake

# What a peer writes without ever ending the line would otherwise fill the memory.
MAXIMUM_LINE_BYTES = 1 << 28

# Of a value in a longer text, in characters, nothing is read that is not needed.
LARGE = 1 << 20

_BLANK = " \t\r\n"
_BOM = b"\xef\xbb\xbf"


class Malformed(ValueError):
    """Raised for a line that is not one JSON object; the text says why."""


class NotAnObject(Malformed):
    """Raised for a line that is JSON, but no object."""


class _Number(str):
    """An integer too long for Python's conversion limit, kept as its digits."""

    __slots__ = ()


def _integer(digits: str) -> int | _Number:
    # CPython refuses long conversions, of more than 4,300 digits by default (CVE-2020-10735).
    try:
        return int(digits)
    except ValueError:
        return _Number(digits)


class _Options:
    """What the C scanner asks of its owner, as json.JSONDecoder would set it."""

    strict = True
    object_hook = None
    object_pairs_hook: type | None = None
    parse_float = float
    parse_int: Callable[[str], Any] = int
    parse_constant = float


class _LongIntegers(_Options):
    parse_int = staticmethod(_integer)


class _Pairs(_LongIntegers):
    object_pairs_hook = list


_scan: Scanner = make_scanner(_Options())  # type: ignore[arg-type]
_scan_long: Scanner = make_scanner(_LongIntegers())  # type: ignore[arg-type]
_scan_pairs: Scanner = make_scanner(_Pairs())  # type: ignore[arg-type]


def value_at(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there, or it nests too deep.
    """
    try:
        try:
            return _scan(text, index)
        except (ValueError, SystemError):
            # Before 3.12 the scanner can only name its error once json.decoder is there.
            import json.decoder  # noqa: F401

            return _scan_long(text, index)
    except StopIteration as problem:
        raise Malformed(f"no JSON value at character {problem.value}") from None
    except ValueError as problem:
        raise Malformed(str(problem)) from None
    except RecursionError:
        from mcpagg_runtime.deep import deep_value

        return deep_value(text, index)


def parse(text: str) -> Any:
    """Read a whole text as one JSON value.

    Raises:
        Malformed: it is none, or something follows it.
    """
    value, end = value_at(text, skip(text, 0))
    if skip(text, end) != len(text):
        raise Malformed(f"unexpected text at character {end}")
    return value


def members(text: str, start: int = 0) -> tuple[dict[str, tuple[Any, int, int]], int]:
    """Take the JSON object at text[start] apart: {key: (value, start, end)}, and the index behind.

    The indices cut out the value's own text. A key that stands twice keeps its last value.

    Raises:
        Malformed: there is no JSON object there.
    """
    found: dict[str, tuple[Any, int, int]] = {}
    return found, read_members(text, start, found)


def read_members(
    text: str,
    start: int,
    found: dict[str, tuple[Any, int, int]],
    names: list[str] | None = None,
    levels: int = 3,
) -> int:
    """Put the members of the JSON object at text[start] into `found`; return the index behind it.

    `names` gets the name of each, twice where it stands twice. Of a large text, objects are read
    no more than so many levels deep; see `outline`.

    Raises:
        Malformed: there is no JSON object there; `found` has the members before the fault.
    """
    try:
        if text[start] != "{":
            raise NotAnObject("not a JSON object")
        index = skip(text, start + 1)
        if text[index] == "}":
            return index + 1
        while True:
            if text[index] != '"':
                raise Malformed(f"no member name at character {index}")
            key, index = scanstring(text, index + 1, True)
            index = skip(text, index)
            if text[index] != ":":
                raise Malformed(f"no colon at character {index}")
            begin = skip(text, index + 1)
            value, index = _member_value(text, begin, levels)
            found[key] = value, begin, index
            if names is not None:
                names.append(key)
            index = skip(text, index)
            if text[index] == "}":
                return index + 1
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index = skip(text, index + 1)
    except IndexError:
        raise Malformed("it ends too early") from None
    except (ValueError, SystemError) as problem:
        if isinstance(problem, Malformed):
            raise
        raise Malformed("a member name is no JSON string") from None


def _member_value(text: str, index: int, levels: int) -> tuple[Any, int]:
    if len(text) - index <= LARGE:
        return value_at(text, index)
    from mcpagg_runtime.deep import outline

    return outline(text, index, levels)


def member_stands_twice(text: str, start: int) -> bool:
    """Whether a member of the JSON object at text[start], which has been read, stands twice."""
    pairs, _ = _scan_pairs(text, start)
    return len({name for name, _ in pairs}) < len(pairs)


def elements(text: str, start: int) -> list[tuple[Any, int, int]]:
    """Take the JSON array at text[start] apart: a (value, start, end) for each element.

    Raises:
        Malformed: there is no JSON array there.
    """
    found: list[tuple[Any, int, int]] = []
    try:
        if text[start] != "[":
            raise Malformed("not a JSON array")
        index = skip(text, start + 1)
        if text[index] == "]":
            return found
        while True:
            value, end = value_at(text, index)
            found.append((value, index, end))
            index = skip(text, end)
            if text[index] == "]":
                return found
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index = skip(text, index + 1)
    except IndexError:
        raise Malformed("it ends too early") from None


def skip(text: str, index: int) -> int:
    """Return the index of the first character at or behind `index` that is no white space."""
    end = len(text)
    while index < end and text[index] in _BLANK:
        index += 1
    return index


def quote(text: str) -> str:
    """Return a string as JSON text, in ASCII."""
    return encode_basestring_ascii(text)


def is_id(value: object) -> bool:
    """Whether a value is a legal request id or progress token: an integer or a string.

    By type(), not isinstance: True is an int, and an over-long number is kept as a str.
    """
    return type(value) is int or type(value) is str


class Message:
    """One JSON-RPC message and the text that it came in.

    `members` maps a member of the message to (value, start, end) within `text`. `id` is the
    request id as int or str, or None if the message has none or an illegal one; `method` is None
    for a response. `ready` is, of a large answer, the line that passes it on, and under which id.
    """

    __slots__ = ("id", "members", "method", "ready", "text")

    def __init__(self, text: str, found: dict[str, tuple[Any, int, int]]) -> None:
        self.text = text
        self.members = found
        method = found["method"][0] if "method" in found else None
        self.method: str | None = method if type(method) is str else None
        identifier = found["id"][0] if "id" in found else None
        self.id: Id | None = identifier if is_id(identifier) else None
        self.ready: tuple[str, bytes] | None = None

    def raw(self, member: str) -> str:
        """Return the JSON text of a member, "" if the message has none of that name."""
        if member not in self.members:
            return ""
        _, start, end = self.members[member]
        return self.text[start:end]

    def value(self, member: str) -> Any:
        """Return the parsed value of a member, None if the message has none of that name."""
        return self.members[member][0] if member in self.members else None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, {} where they are absent, null or not an object."""
        params = self.value("params")
        return params if type(params) is dict else {}

    @property
    def params_text(self) -> str:
        """The JSON text of the parameters, {} where they are absent, null or not an object."""
        return self.raw("params") if type(self.value("params")) is dict else "{}"

    def spliced_params(self, changes: list[tuple[Span, str]]) -> str:
        """Return the text of `params` with the given spans of `text` replaced."""
        _, start, end = self.members["params"]
        parts = []
        for (begin, stop), replacement in sorted(changes):
            parts += [self.text[start:begin], replacement]
            start = stop
        return "".join([*parts, self.text[start:end]])


def read_message(text: str) -> Message:
    """Read one message from its text.

    Raises:
        NotAnObject: it is JSON, but no object.
        Malformed: it is not JSON.
    """
    start = skip(text, 0)
    if text[start : start + 1] != "{":
        parse(text)
    found, end = members(text, start)
    if skip(text, end) != len(text):
        raise Malformed(f"unexpected text at character {end}")
    return Message(text, found)


def request(identifier: int, method: str, params: str) -> str:
    """Return the text of a request; `params` is JSON text, "" for none."""
    tail = f',"params":{params}' if params else ""
    return f'{{"jsonrpc":"2.0","id":{identifier},"method":{quote(method)}{tail}}}'


def notification(method: str, params: str = "") -> str:
    """Return the text of a notification; `params` is JSON text, "" for none."""
    tail = f',"params":{params}' if params else ""
    return f'{{"jsonrpc":"2.0","method":{quote(method)}{tail}}}'


def result(identifier: str, value: str) -> str:
    """Return the text of a response; `identifier` and `value` are JSON text."""
    return f'{{"jsonrpc":"2.0","id":{identifier},"result":{value}}}'


def failure(identifier: str, error: str) -> str:
    """Return the text of an error response; `identifier` and `error` are JSON text."""
    return f'{{"jsonrpc":"2.0","id":{identifier},"error":{error}}}'


def error(code: int, message: str, data: str = "") -> str:
    """Return the text of an error object; `data` is JSON text, "" for none."""
    tail = f',"data":{data}' if data else ""
    return f'{{"code":{code},"message":{quote(message)}{tail}}}'


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
        return line.removeprefix(_BOM).decode("utf-8").strip(_BLANK)
    except UnicodeDecodeError as problem:
        raise Malformed(f"not UTF-8 at byte {problem.start}") from None
