"""Takes JSON apart by its text, and writes it: values are cut out where they stand.

What passes through unread keeps its numbers, the order of its members, names that stand twice, lone
surrogates and members that nobody knows, as whoever wrote it did.
"""

from __future__ import annotations

import json.decoder  # noqa: F401 - before Python 3.12 the scanner names its errors by it
from functools import lru_cache
from typing import TYPE_CHECKING

from mcpagg_runtime.start.values import (
    ScannerOptions,
    new_scanner,
    quote,
    scan,
    string_behind,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    Span = tuple[int, int]
    Members = dict[str, tuple[Any, int, int]]
    Noted = tuple[Members, list[str]]
    """The members of an object, and their names as they stand: twice where one stands twice."""

BLANK = " \t\r\n"
_BOM = b"\xef\xbb\xbf"
# What has more characters is a piece of its own in what is sent: to copy it costs more.
LARGE = 1 << 18
BEYOND_DEPTH = "it nests too deep"


class Malformed(ValueError):
    """Raised for a text that is not the JSON that is looked for in it; says why."""


class NotAnObject(Malformed):
    """Raised for a text that is JSON, but no object."""


def decode(line: bytes) -> str:
    """Return the text of a line, "" for a blank one; one leading BOM and one trailing CR go.

    Raises:
        Malformed: it is not UTF-8.
    """
    try:
        return line.removeprefix(_BOM).decode("utf-8").strip(BLANK)
    except UnicodeDecodeError as problem:
        raise Malformed(f"not UTF-8 at byte {problem.start}") from None


def skip(text: str, index: int) -> int:
    """Return the index of the first character at or behind `index` that is no white space."""
    end = len(text)
    while index < end and text[index] in BLANK:
        index += 1
    return index


class Digits(str):
    """An integer of more digits than Python converts (CVE-2020-10735), kept as its text."""

    __slots__ = ()


def _integer(digits: str) -> int | Digits:
    try:
        return int(digits)
    except ValueError:
        return Digits(digits)


class _LongIntegers(ScannerOptions):
    parse_int = staticmethod(_integer)


_scan_long = new_scanner(_LongIntegers())


def value_at(text: str, index: int) -> tuple[Any, int]:
    """Read the JSON value that starts at text[index]; return it and the index behind it.

    Raises:
        Malformed: there is no JSON value there, or it nests deeper than the interpreter goes.
    """
    try:
        return scan(text, index)
    except (ValueError, StopIteration):
        pass
    except RecursionError:
        raise Malformed(BEYOND_DEPTH) from None
    try:
        return _scan_long(text, index)
    except RecursionError:
        raise Malformed(BEYOND_DEPTH) from None
    except StopIteration as problem:
        raise Malformed(f"no JSON value at character {problem.value}") from None
    except ValueError as problem:
        raise Malformed(str(problem)) from None


def parse(text: str) -> Any:
    """Read a whole text as one JSON value.

    Raises:
        Malformed: it is none, or something follows it.
    """
    value, end = value_at(text, skip(text, 0))
    if skip(text, end) != len(text):
        raise Malformed(f"unexpected text at character {end}")
    return value


def members(text: str, start: int = 0) -> tuple[Members, int]:
    """Take the JSON object at text[start] apart: {key: (value, start, end)}, and the index behind.

    The indices cut out the value's own text. A key that stands twice keeps its last value.

    Raises:
        Malformed: there is no JSON object there.
    """
    found: Members = {}
    return found, read_members(text, start, found)


def read_members(  # noqa: PLR0912 - each line of each peer comes through here
    text: str,
    start: int,
    found: Members,
    names: list[str] | None = None,
    inner: Mapping[str, Noted] = {},
) -> int:
    """Put the members of the JSON object at text[start] into `found`; return the index behind it.

    `names` gets the name of each, twice where it stands twice. `inner` {name: (members, names)} has
    the names of those whose own members are wanted too, where they are objects; it gets them.

    Raises:
        Malformed: there is no JSON object there; `found` has the members before the fault.
    """
    # Each line of each peer comes through here. Most have no white space but a blank behind a colon
    # or a comma: for more of it, each character would be looked at twice.
    try:
        if text[start] != "{":
            raise NotAnObject("not a JSON object")
        index = start + 1
        if text[index] != '"':
            index = skip(text, index)
            if text[index] == "}":
                return index + 1
        while True:
            if text[index] != '"':
                index = _behind_blanks(text, index, '"', "member name")
            key, index = string_behind(text, index + 1, True)
            if text[index] != ":":
                index = _behind_blanks(text, index, ":", "colon")
            begin = index + 2 if text[index + 1] == " " else index + 1
            if key in inner:
                begin = skip(text, begin) if text[begin] in BLANK else begin
                value, index = _noted_value(text, begin, inner[key])
            else:
                try:
                    value, index = scan(text, begin)
                except (StopIteration, ValueError, SystemError, RecursionError):
                    begin = skip(text, begin)
                    value, index = value_at(text, begin)
            found[key] = value, begin, index
            if names is not None:
                names.append(key)
            index = skip(text, index) if text[index] in BLANK else index
            if text[index] == "}":
                return index + 1
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index += 2 if text[index + 1] == " " else 1
    except Malformed:
        raise
    except IndexError:
        raise Malformed("it ends too early") from None
    except (ValueError, SystemError):
        raise Malformed("a member name is no JSON string") from None


def _behind_blanks(text: str, index: int, wanted: str, what: str) -> int:
    """Return where a character stands that only white space may be in front of."""
    index = skip(text, index)
    if text[index] != wanted:
        raise Malformed(f"no {what} at character {index}")
    return index


def _noted_value(text: str, index: int, noted: Noted) -> tuple[Any, int]:
    """Read the value of a member whose own members are wanted."""
    if text[index] != "{":
        return value_at(text, index)
    found, names = noted
    if names:  # the last member of a name counts
        found.clear()
        names.clear()
    end = read_members(text, index, found, names)
    return {name: value for name, (value, _, _) in found.items()}, end


def elements(text: str, start: int) -> Iterator[tuple[Any, int, int]]:
    """Take the JSON array at text[start] apart: yield (value, start, end) for each element.

    Raises:
        Malformed: there is no JSON array there.
    """
    try:
        if text[start] != "[":
            raise Malformed("not a JSON array")
        index = skip(text, start + 1)
        if text[index] == "]":
            return
        while True:
            value, end = value_at(text, index)
            yield value, index, end
            index = skip(text, end)
            if text[index] == "]":
                return
            if text[index] != ",":
                raise Malformed(f"no comma at character {index}")
            index = skip(text, index + 1)
    except IndexError:
        raise Malformed("it ends too early") from None


def place_of(text: str, path: tuple[str, ...]) -> Span:
    """Return where the value that `path` leads to stands in the JSON text of an object.

    (0, 0) if there is none.
    """
    start = end = 0
    for name in path:
        if text[start : start + 1] != "{":
            return 0, 0
        found, _ = members(text, start)
        if name not in found:
            return 0, 0
        _, start, end = found[name]
    return start, end


def log_line(at: float, **members: str) -> bytes:
    """Return a line of a log, with the time in seconds since 1970; the members are JSON texts."""
    return obj(time=f"{at:.3f}", **members).encode("ascii") + b"\n"


def obj(members_: Mapping[str, str] = {}, /, **more: str) -> str:
    """Return the JSON text of an object with these members, whose values are JSON texts."""
    pairs = [f"{quote(name)}:{text}" for name, text in {**members_, **more}.items()]
    return "{" + ",".join(pairs) + "}"


def edited(text: str, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> str:
    """Return the JSON text of an object without some members, and with others; see `Json.edited`.

    `add` is {name: JSON text}.
    """
    return Json(text).edited(drop, add).text


def rivals(names: Collection[str], ours: Collection[str]) -> list[str]:
    """Return which names a parser that ignores case takes for one of ours, and are none."""
    others = set(names).difference(ours)
    if not others:
        return []
    folded = _folded(frozenset(ours))
    if folded.isdisjoint(map(str.casefold, others)):
        return []
    return [name for name in names if name in others and name.casefold() in folded]


@lru_cache(32)  # the same few are asked for with each message
def _folded(names: frozenset[str]) -> frozenset[str]:
    return frozenset(map(str.casefold, names))


def spliced(text: str, changes: list[tuple[Span, str]]) -> str:
    """Return a text with some places of it replaced."""
    parts, done = [], 0
    for (start, end), replacement in sorted(changes):
        parts += [text[done:start], replacement]
        done = end
    return "".join([*parts, text[done:]])


UNREAD: Any = object()


class Json:
    """One JSON value: its text, and what has been read of it.

    The text may be a part of a longer one, or made of `parts`; it is cut out or joined when it is
    first asked for. The value is parsed when it is first asked for, if it has not been read with
    what surrounds it.
    """

    __slots__ = ("_base", "_end", "_line", "_noted", "_parts", "_source", "_start", "_value")

    def __init__(
        self,
        source: str,
        start: int = 0,
        end: int = -1,
        value: Any = UNREAD,
        noted: Noted | None = None,
        line: bytes | memoryview = b"",
        parts: Sequence[str | Json] = (),
    ) -> None:
        """`value` and `noted`, the members of an object, are given if they have been read.

        `line` is the source in ASCII, where that is known: what is large is not encoded anew.
        """
        self._source = source
        self._start = self._base = start
        self._end = end if end >= 0 else len(source)
        self._value = value
        self._noted = noted
        self._line = line
        self._parts = parts

    @property
    def pieces(self) -> list[bytes | memoryview]:
        """The JSON text in UTF-8; what is large of it is not copied."""
        if self._parts:
            parts = [part if isinstance(part, Json) else Json(part) for part in self._parts]
            return [piece for part in parts for piece in part.pieces]
        if self._line:
            return [memoryview(self._line)[self._start : self._end]]
        return [self.text.encode("utf-8")]

    @property
    def is_large(self) -> bool:
        """Whether it is sent in pieces."""
        return bool(self._parts) or self._end - self._start > LARGE

    @property
    def text(self) -> str:
        """The JSON text."""
        if self._parts:
            self._join()
        size = self._end - self._start
        if size < len(self._source):
            self._source = self._source[self._start : self._end]
            self._line = self.pieces[0] if self._line and size > LARGE else b""
            self._start, self._end = 0, size
        return self._source

    def _join(self) -> None:
        """Make one text of the parts that it is made of."""
        texts = [part.text if isinstance(part, Json) else part for part in self._parts]
        self._source, self._parts = "".join(texts), ()
        self._end = len(self._source)

    @property
    def value(self) -> Any:
        """The value."""
        if self._value is UNREAD:
            self._value = parse(self.text)
        return self._value

    def _members(self) -> Noted:
        """Return the members of an object, with their places relative to `_base`."""
        if self._noted is None:
            self._base = 0
            self._noted = {}, []
            read_members(self.text, skip(self.text, 0), *self._noted)
        return self._noted

    def stands_twice(self, member: str) -> bool:
        """Whether a member of the object stands more than once, in whatever case."""
        _, names = self._noted or self._members()
        return [*map(str.casefold, names)].count(member) > 1

    def place(self, path: tuple[str, ...]) -> Span:
        """Return where the value that `path` leads to stands in the text, (0, 0) if nowhere."""
        members_, _ = self._noted or self._members()
        found = members_.get(path[0])
        if found is None:
            return 0, 0
        start, end = found[1] - self._base, found[2] - self._base
        if len(path) == 1:
            return start, end
        begin, stop = place_of(self._between(start, end), path[1:])
        return (start + begin, start + stop) if stop else (0, 0)

    def edited(self, drop: Collection[str] = (), add: Mapping[str, str] = {}) -> Json:
        """Return the object without some members, and with others {name: JSON text}.

        The values of all others stay as they are written; so does the whole text, if it only gets
        more. Of a name that stands twice, the last value counts.
        """
        known = self._names()
        parts: list[Any] = []
        if not {*drop, *add}.isdisjoint(known):
            found, _ = self._members()
            shift = self._start - self._base
            kept = {
                name: self._cut(start + shift, end + shift)
                for name, (_, start, end) in found.items()
                if name not in drop
            }
            for name, text in {**kept, **add}.items():
                parts += [f"{',' if parts else '{'}{quote(name)}:", text]
            parts.append("}" if parts else "{}")
        elif add:
            end = self._source.rindex("}", self._start, self._end)
            parts = [self._cut(self._start, end), f",{obj(add)[1:]}" if known else obj(add)[1:]]
        else:
            return self
        is_large = self._end - self._start > LARGE
        return Json("", parts=parts) if is_large else Json("".join(parts))

    def _cut(self, start: int, end: int) -> str | Json:
        """Return a part of the source; what is large is not copied for that."""
        if end - start <= LARGE:
            return self._source[start:end]
        return Json(self._source, start, end, line=self._line)

    def owned(self, add: Mapping[str, str], guarded: Collection[str] = ()) -> Json:
        """Return the object with members of ours {name: JSON text}, whoever else has such.

        Of these, and of those that are `guarded`, no other spelling stays: parsers that ignore case
        take the last one.
        """
        return self.edited(rivals(self._names(), {*add, *guarded}), add)

    def reduced(self, member: str, drop: Collection[str]) -> Json:
        """Return the object without some members of a member, and without that if none is left."""
        kept = edited(self.part(member), drop)
        return self.edited((member,)) if kept == "{}" else self.edited(add={member: kept})

    def _names(self) -> Collection[str]:
        """Return the names of the members of the object."""
        return self._members()[0] if self._value is UNREAD else self._value

    def part(self, *path: str) -> str:
        """Return the JSON text of the value that `path` leads to, "" if there is none."""
        return self._between(*self.place(path))

    def _between(self, start: int, end: int) -> str:
        """Return a part of the text; the rest is not copied for that."""
        return self._source[self._start + start : self._start + end]
