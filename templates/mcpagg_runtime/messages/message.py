"""JSON-RPC messages: read from lines, passed on as objects, printed once where they leave.

A message keeps the JSON text of each of its members, so that a result, an error or arguments pass
through unread. Only ids, names and progress tokens are ever replaced.

Source of the framing rules: MCP specification, basic/transports, stdio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.messages.jsontext import (
    LARGE,
    UNREAD,
    Json,
    Malformed,
    NotAnObject,
    decode,
    elements,
    obj,
    parse,
    read_members,
    rivals,
    skip,
)
from mcpagg_runtime.messages.protocol import (
    CAPABILITIES_KEY,
    ENVELOPE,
    METHODS,
    OTHER,
    VERSION_KEY,
)
from mcpagg_runtime.start.values import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mcpagg_runtime.messages.jsontext import Members, Noted

    Id = int | str

# What a peer writes without ever ending the line would otherwise fill the memory.
MAXIMUM_LINE_BYTES = 1 << 28
# A message with fewer arrays and objects can be read anywhere. Any other is read with so many calls
# to spare: so the interpreter goes deep enough wherever it is read again, or compared.
SHALLOW = 500
DEPTH_MARGIN = 100

# Of a longer line, the members of a result are noted while it is read. In a shorter one, they are
# looked for by whoever wants them: that takes less than to note them all.
NOTED = 1 << 13

_PRINTED = ("params", "result", "error")
# What a request must not name twice, see `Message.ambiguity`.
_META = frozenset({"_meta"})
_OF_META = frozenset({"progressToken", *ENVELOPE})
_OF_REFERENCE = ("type", "name", "uri")


class Message:
    """One JSON-RPC message.

    It is read from a line or composed here, handed on as an object, and printed by `line`, once.
    """

    __slots__ = (
        "_id",
        "_line",
        "_params",
        "id_text",
        "is_versioned",
        "members",
        "method",
        "repeats",
    )

    def __init__(
        self,
        members_: dict[str, Json],
        method: str | None = None,
        id_text: str = "",
        identifier: Any = UNREAD,
    ) -> None:
        """`identifier` is the value of `id_text`, if that has been read."""
        self.members = members_
        """Its members by name, without those of the envelope: version, id and method."""
        self.method = method
        """None for a response."""
        self.id_text = id_text
        """The JSON text of its id, "" if it has none."""
        self.is_versioned = True
        """Whether it says which version of JSON-RPC it is of."""
        self.repeats = False
        """Whether one of its members stands twice."""
        self._id = identifier
        self._params: dict[str, Any] | None = None
        self._line = b""

    def _identifier(self) -> Any:
        if self._id is UNREAD:
            self._id = parse(self.id_text) if self.id_text else None
        return self._id

    @property
    def id(self) -> Id | None:
        """Its id, None if it has none, or an illegal one."""
        identifier = self._identifier() if self._id is UNREAD else self._id
        return identifier if type(identifier) in (int, str) else None

    @property
    def number(self) -> int:
        """The id of ours that a response is to, 0 for none."""
        return self._id if type(self._id) is int else minted(self._identifier())

    def raw(self, member: str) -> str:
        """Return the JSON text of a member, "" if the message has none of that name."""
        return self.members[member].text if member in self.members else ""

    def value(self, member: str) -> Any:
        """Return the parsed value of a member, None if the message has none of that name."""
        return self.members[member].value if member in self.members else None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, {} where they are absent, null or not an object."""
        if self._params is None:
            params = self.value("params")
            self._params = params if type(params) is dict else {}
        return self._params

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
        return "error" in self.members and self.members["error"].value is not None

    @property
    def is_response(self) -> bool:
        """Whether an object without a method or an id is meant as an answer: some log JSON."""
        problem = self.value("error")
        shaped = type(problem) is dict and type(problem.get("code")) is int
        return shaped or (self.is_versioned and (problem is not None or "result" in self.members))

    @property
    def is_enveloped(self) -> bool:
        """Whether it is of the revision without handshakes: it says who asks."""
        meta = self.params.get("_meta")
        return type(meta) is dict and (VERSION_KEY in meta or CAPABILITIES_KEY in meta)

    @property
    def contradiction(self) -> str:
        """Why nobody can tell what it says, "" where that is clear."""
        if self.repeats:
            return "one of its members stands twice"
        if self.method is None or not self.id_text:
            return ""
        is_answer = self.value("result") is not None or self.is_error
        return "it is a request and an answer at once" if is_answer else ""

    @property
    def ambiguity(self) -> str:
        """What a request names more than once of what it is for, "" for nothing.

        What an object means that has a name twice is not defined (RFC 8259, section 4): a server
        may read another one of the two than the proxy has checked and replaced. Some ignore case,
        too: they would take the progress token, or the envelope, of somebody else's call from a
        second spelling.
        """
        member, params = METHODS.get(self.method or "", OTHER).member, self.params
        meta = params.get("_meta")
        twice = rivals(params, _META)
        twice += rivals(meta, _OF_META) if type(meta) is dict else []
        if twice:
            return f"{twice[0]} in params is another member's name, but for its case"
        if not member or not params:
            return ""
        given = self.members["params"]
        if given.stands_twice(member):
            return f"{member} stands more than once in params"
        if member == "ref" and type(params.get("ref")) is dict:
            reference = Json(given.part("ref"))
            twice = [name for name in _OF_REFERENCE if reference.stands_twice(name)]
            return f"{twice[0]} stands more than once in params" if twice else ""
        return ""

    @property
    def code(self) -> int | None:
        """The code of an error response, None if it has none that is an integer."""
        problem = self.value("error")
        code = problem.get("code") if type(problem) is dict else None
        return code if type(code) is int else None

    def changed(self, texts: Mapping[str, str]) -> Message:
        """Return the message with other JSON texts for some of its members."""
        changed = {name: Json(text) for name, text in texts.items()}
        return Message({**self.members, **changed}, self.method, self.id_text, self._id)

    def under(self, id_text: str) -> Message:
        """Return the response under another id, a JSON text; what it says is not copied."""
        name = "error" if self.is_error else "result"
        return Message({name: self.members.get(name, _EMPTY)}, None, id_text)

    def pieces(self) -> Sequence[bytes | memoryview]:
        """Return the line that the message is sent as, in pieces where it is large."""
        names = [*self.members]
        if len(names) != 1 or not self.members[names[0]].is_large:
            return (self.line(),)
        # To print it at once would take its memory twice.
        head, _, end = self.changed({names[0]: "0"}).line().rpartition(b"0")
        return (head, *self.members[names[0]].pieces, end)

    def line(self) -> bytes:
        """Return the line that the message is sent as."""
        if not self._line:
            parts = ['{"jsonrpc":"2.0"']
            if self.id_text:
                parts += ',"id":', self.id_text
            if self.method is not None:
                parts += ',"method":', quote(self.method)
            for name, json in self.members.items():
                if name in _PRINTED:
                    parts += ',"', name, '":', json.text
            parts.append("}\n")
            self._line = "".join(parts).encode("utf-8")
        return self._line


class Fragment:
    """What looks like a message of a server and cannot be read as one.

    `problem` says why. `id` is its id, None where none can be found; `method` is its method, ""
    where none can be found: it is an answer then, or as good as one.
    """

    __slots__ = ("id", "method", "problem")

    def __init__(self, identifier: Id | None, method: str, problem: str) -> None:
        self.id = identifier
        self.method = method
        self.problem = problem

    @property
    def number(self) -> int:
        """The id of ours that it answers, 0 for none."""
        return minted(self.id)


_EMPTY = Json("{}", value={})


def is_id(value: object) -> bool:
    """Whether a value is a legal request id or progress token: an integer or a string.

    By type(), not isinstance: True is an int, and an over-long number is kept as a str.
    """
    return type(value) is int or type(value) is str


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


# Reading


def read_message(text: str, line: bytes = b"", margin: int = -1) -> Message:
    """Read one message from its text; `line` is that in ASCII, where it has nothing else.

    It is read with `margin` calls to spare, negative for as many as it takes. From Python
    3.12 on only calls of C code count for that, such as `map`.

    Raises:
        NotAnObject: it is JSON, but no object.
        Malformed: it is not JSON, or nests deeper than the interpreter goes.
    """
    size = len(text)
    if margin < 0 and size >= 2 * SHALLOW:
        is_shallow = size < LARGE and text.count("{") + text.count("[") < SHALLOW
        margin = 0 if is_shallow else DEPTH_MARGIN
    if margin > 0:
        return next(map(read_message, (text,), (line,), (margin - 1,)))
    start = 0
    if not text.startswith("{"):
        start = skip(text, 0)
        if text[start : start + 1] != "{":
            parse(text)
    found: Members = {}
    noted: dict[str, Noted] = {"params": ({}, [])}
    if len(text) > NOTED:
        noted["result"] = {}, []
    names: list[str] = []
    end = read_members(text, start, found, names, noted)
    if end != len(text) and skip(text, end) != len(text):
        raise Malformed(f"unexpected text at character {end}")
    repeats = len(names) > len(found)
    method = found.pop("method")[0] if "method" in found else None
    identifier, start, end = found.pop("id", (None, 0, 0))
    is_versioned = found.pop("jsonrpc", None) is not None
    members_ = {}
    for name, (value, a, b) in found.items():
        members_[name] = Json(text, a, b, value, noted.get(name), line)
    method = method if type(method) is str else None
    message = Message(members_, method, text[start:end], identifier)
    message.is_versioned, message.repeats = is_versioned, repeats
    return message


def read_messages(line: bytes, batches: bool) -> list[Message | Malformed]:
    """Read the message of a line, or those of a batch; a blank line has none.

    What is no message stands as the error that says why.
    """
    try:
        text = decode(line)
        if batches and text.startswith("["):
            parts = [text[start:end] for _, start, end in elements(text, 0)]
            return [_message(part) for part in parts] or [NotAnObject("an empty batch")]
        return [read_message(text)] if text else []
    except Malformed as problem:
        return [problem]


def _message(text: str) -> Message | Malformed:
    try:
        return read_message(text)
    except Malformed as problem:
        return problem


def read_line(
    line: bytes, redact: Callable[[str], str] = str, request: int = 0
) -> tuple[list[Message | Fragment], str]:
    """Return what a line of a server holds, and what is odd about it, "" for nothing.

    A blank line holds nothing, a line of other words neither; a batch holds its messages. What
    contradicts itself is handed on as fragments, which end what it may be the answer to. `redact`
    hides secrets in what is quoted of the line, before that is cut: the beginning of a secret would
    not be recognised. `request` is the id of the request that the line came in answer to, 0 if
    that is not known: an answer without an id is to that one.
    """
    found: list[Message | Fragment] = []
    oddity = ""
    try:
        text = decode(line)
        message = read_message(text, line if len(text) == len(line) else b"")
        if not message.contradiction:
            found.append(message)
    except Malformed:
        pass
    if found and not request:
        return found, oddity
    from mcpagg_runtime.messages.odd_lines import identified, odd_line  # few servers need it

    if not found:
        found, oddity = odd_line(line, redact)
    return ([identified(one, request) for one in found] if request else found), oddity


# Composing


def request(identifier: Id, method: str, params: str = "") -> Message:
    """Return a request; `params` is JSON text, "" for none."""
    members_ = {"params": Json(params)} if params else {}
    return Message(members_, method, id_text(identifier), identifier)


def notification(method: str, params: str = "") -> Message:
    """Return a notification; `params` is JSON text, "" for none."""
    return Message({"params": Json(params)} if params else {}, method)


def result(id_text: str, value: str | Json) -> Message:
    """Return a response; `id_text` is JSON text, and so may `value` be."""
    return Message({"result": value if isinstance(value, Json) else Json(value)}, None, id_text)


def failure(id_text: str, error: str) -> Message:
    """Return an error response; `id_text` and `error` are JSON text."""
    return Message({"error": Json(error)}, None, id_text)


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
            lines[0] = self.rest()
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
