"""What is on a server's list and withheld under `refuse`, and why, for who asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.lists.catalogue import SKILLS, TEMPLATES
from mcpagg_runtime.messages.protocol import METHODS, OTHER
from mcpagg_runtime.plan.uri_templates import fits, is_within, qualified_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mcpagg_runtime.lists.catalogue import Catalogue, Item, Kind
    from mcpagg_runtime.lists.differences import Difference


class Withheld:
    """The items of one list of one server that are withheld, by any name that clients may use."""

    def __init__(self, catalogue: Catalogue, server: str, reasons: Mapping[Item, str]) -> None:
        """`reasons` says of each why it is withheld."""
        self._catalogue = catalogue
        self._server = server
        self.kind = catalogue.kind
        named = self.kind.key == "name"
        self.reasons = {
            name: reason
            for item, reason in reasons.items()
            for name in ((item.exposed, item.portable) if named else (item.original,))
        }
        """{name that a client may use: why that is withheld}."""

    def reason(self, method: str, name: str) -> str | None:
        """Return why what a client asks for by `name` is withheld, None if it is not."""
        is_meant = self.kind.name in METHODS.get(method, OTHER).lists
        for withheld, reason in self.reasons.items() if is_meant else ():
            if name == withheld or self._is_part(name, withheld):
                return reason
        return None

    def _is_part(self, uri: str, withheld: str) -> bool:
        """Whether a URI is of a template that is withheld, or in the folder of such a skill.

        A skill that is served may lie within that.
        """
        if self.kind is TEMPLATES:
            return fits(withheld, uri)
        if self.kind is not SKILLS or not is_within(uri, qualified_unit(withheld)):
            return False
        served = [qualified_unit(item.original) for item in self._catalogue.served(self._server)]
        around = [folder for folder in served if is_within(uri, folder)]
        return all(len(folder) <= len(qualified_unit(withheld)) for folder in around)


def refusals(
    kind: Kind, difference: Difference, refused: Collection[str], redact: Callable[[str], str]
) -> dict[Item, str]:
    """Return {item: why it is withheld} for the own names in `refused`."""
    what, since = f"has a {kind.name[:-1]}", "since this proxy was compiled"
    how = {name: "is new" if name in difference.added else "changed" for name in refused}
    return {
        difference.new[name]: f"{what} '{redact(name)}' that {became} {since}"
        for name, became in how.items()
    }


def accepted_items(
    recorded: Iterable[Item], difference: Difference, refused: Collection[str]
) -> list[Item]:
    """Return what is served of a list: what is as recorded, and what is new and not refused."""
    items = {item.original: item for item in recorded if item.original not in difference.removed}
    items.update({name: difference.new[name] for name in difference.changed})
    items.update({name: difference.new[name] for name in difference.added})
    return [item for name, item in items.items() if name not in refused]
