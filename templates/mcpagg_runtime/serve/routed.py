"""Whether a request says once what it is for.

What an object means that has a name twice is not defined (RFC 8259, section 4): a server may read
another one of the two than the proxy has checked and replaced. Some ignore case, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.serve.editing import place_of
from mcpagg_runtime.start.jsontext import read_members

if TYPE_CHECKING:
    from mcpagg_runtime.start.message import Message

# The member of params by which the proxy decides where a request goes and whether it may.
_ROUTED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "skills/get": "uri",
    "resources/directory/read": "uri",
    "completion/complete": "ref",
}
_OF_REFERENCE = ("type", "name", "uri")


def ambiguity(message: Message) -> str:
    """Say what a request names more than once of what it is for, "" for nothing."""
    member = _ROUTED.get(message.method or "")
    if member is None or not message.params:
        return ""
    text = message.raw("params")
    fault = repeated(text, 0, (member,))
    if not fault and member == "ref" and type(message.params.get("ref")) is dict:
        fault = repeated(text, place_of(text, ("ref",))[0], _OF_REFERENCE)
    return fault


def repeated(text: str, start: int, wanted: tuple[str, ...]) -> str:
    """Say which of the wanted members the object at text[start] has twice, in whatever case."""
    whole = text.casefold()
    if "\\" not in text and all(whole.count(f'"{name}"') < 2 for name in wanted):
        return ""  # nearly always, and without reading the text once more
    names: list[str] = []
    read_members(text, start, {}, names)
    folded = [name.casefold() for name in names]
    twice = [name for name in wanted if folded.count(name) > 1]
    return f"{twice[0]} stands more than once in params" if twice else ""
