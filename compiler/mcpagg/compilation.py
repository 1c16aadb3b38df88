"""The result of a compilation: the text of the emitted file, and the data in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mcpagg.job import Job
from mcpagg.options import Options
from mcpagg.passes.emission.recorded import NO_CONTENTS, Contents, Rows
from mcpagg.passes.environment.pins import Pin
from mcpagg.snapshot import Snapshot
from mcpagg.spec import LeftOut, ProxySpec

if TYPE_CHECKING:
    from mcpagg.passes.freezing.checking import Offered
    from mcpagg.passes.linking.linking import Linked
    from mcpagg.review.costs import Cost
    from mcpagg.review.lint import Finding


@dataclass(frozen=True, slots=True)
class Earlier:
    """What FILE says of its servers, to compare it with what is compiled now.

    `renamed` {old name: new name} has the servers that only have another name now.
    """

    contents: Contents = NO_CONTENTS
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of FILE, under the names of now."""
        return self.contents.snapshot.renamed(self.renamed)


@dataclass(frozen=True, slots=True)
class ProxyData:
    """The data of an emitted file, for the other forms of it too (a report, an extension, …).

    `rows` is the launch table as the file has it; `spec` has an entry for each row. `listed` is the
    snapshot with overlays applied: as clients see it. `frozen` is the table FROZEN.
    """

    spec: ProxySpec
    rows: Rows
    snapshot: Snapshot
    linked: Linked
    listed: Snapshot
    frozen: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def not_frozen(self) -> tuple[str, ...]:
        """The servers that are not frozen, where others are."""
        return tuple(name for name in self.rows if self.frozen and name not in self.frozen)


@dataclass(frozen=True)
class Compilation:
    """The text of the emitted file, the data in it, and what there is to say about it."""

    job: Job
    text: str
    data: ProxyData
    absent: tuple[LeftOut, ...] = ()
    """Entries of the config that were not compiled."""
    findings: tuple[Finding, ...] = ()
    """What lint found in what it lists, and is no error."""
    pins: tuple[Pin, ...] = ()
    """Servers that were asked and whose package has no exact version."""
    earlier: Earlier = field(default_factory=Earlier)
    offered: Mapping[str, Offered] = field(default_factory=dict)
    """What there is now of frozen servers, for `--check`."""

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def options(self) -> Options:
        return self.job.options

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
        tools = self.data.linked.routes["tools"]
        return all(name == portable for name, (_, _, portable) in tools.items())

    @property
    def left_out(self) -> dict[str, str]:
        """Entries of the config that are not part of the proxy, and why."""
        failed = dict.fromkeys(self.data.snapshot.failed, "failed")
        return failed | {entry.name: entry.why for entry in self.absent}

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
