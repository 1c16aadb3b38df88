"""What comes of a compilation: the text of the emitted file, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mcpagg.options import Options
from mcpagg.passes.emission.recorded import NOTHING, Contents, Rows
from mcpagg.passes.environment.pins import Pin
from mcpagg.problems import CompileError
from mcpagg.snapshot import Snapshot
from mcpagg.spec import LeftOut, ProxySpec

if TYPE_CHECKING:
    from mcpagg.passes.linking.linking import Linked
    from mcpagg.review.costs import Cost
    from mcpagg.review.lint import Finding


@dataclass(frozen=True, slots=True)
class Earlier:
    """What FILE says of its servers, for a comparison with what is compiled now.

    `renamed` {old name: new name} has the servers that only have another name now; `text_of`
    returns the text that contents would be compiled to with the options of now.
    """

    contents: Contents = NOTHING
    renamed: Mapping[str, str] = field(default_factory=dict)
    text_of: Callable[[Contents], str] = lambda contents: ""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of FILE, under the names of now."""
        return self.contents.snapshot.renamed(self.renamed)


@dataclass(frozen=True, slots=True)
class ProxyData:
    """What an emitted file is made of, for the other forms of it too (a report, an extension, …).

    `rows` is the launch table as the file has it; `spec` has an entry for each row. `listed` is the
    snapshot with overlays applied: as clients see it.
    """

    spec: ProxySpec
    rows: Rows
    snapshot: Snapshot
    linked: Linked
    listed: Snapshot


@dataclass(frozen=True)
class Compilation:
    """The text of the emitted file, what it is made of, and what there was to say about it."""

    name: str
    text: str
    options: Options
    data: ProxyData
    absent: tuple[LeftOut, ...] = ()
    """Entries of the config that were not compiled."""
    findings: tuple[Finding, ...] = ()
    """What was found wrong with what it lists, and is no error."""
    pins: tuple[Pin, ...] = ()
    """Servers that were asked and whose package has no exact version."""
    earlier: Earlier = field(default_factory=Earlier)

    @property
    def servers(self) -> dict[str, list[str]]:
        """Each server's tools, by the names that are listed, to most clients at least."""
        listed: dict[str, list[str]] = {name: [] for name in self.data.rows}
        for exposed, (server, _, portable) in self.data.linked.routes["tools"].items():
            if server in listed:
                listed[server].append(portable if self.options.names == "portable" else exposed)
        return listed

    @property
    def is_portable(self) -> bool:
        """Whether every tool's name is portable as it is."""
        tools = self.data.linked.routes["tools"]
        return all(name == portable for name, (_, _, portable) in tools.items())

    @property
    def left_out(self) -> dict[str, str]:
        """Entries of the config that are no part of the proxy, and why."""
        failed = dict.fromkeys(self.data.snapshot.failed, "failed")
        return failed | {entry.name: entry.why for entry in self.absent}

    @cached_property
    def earlier_text(self) -> str:
        """What the snapshot of FILE would be compiled to now, "" if it has none that fits."""
        try:
            contents = self.earlier.contents
            return self.earlier.text_of(contents) if contents.rows else ""
        except CompileError:  # the options of now do not fit it
            return ""

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """What each server adds to the list of tools."""
        from mcpagg.review.costs import measure

        return measure(self.data.listed, self.data.linked, self.options)

    @cached_property
    def profiles(self) -> dict[str, tuple[Cost, ...]]:
        """The same of each profile."""
        from mcpagg.review.costs import measure

        listed, linked = self.data.listed, self.data.linked
        return {
            name: measure(listed, linked, self.options, subset.tools)
            for name, subset in linked.profiles.items()
        }
