"""Writes or compares FILE after a compilation, and its other forms.

What few runs need is imported late: reports, the page, the extension, the bill of materials.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcpagg.command.printing import say, show
from mcpagg.options import PROGRAM
from mcpagg.passes.emission.output import (
    CRLF,
    EXECUTABLE,
    PRIVATE,
    READABLE,
    check_name,
    check_target,
    differs,
    is_extension,
    on_disk,
    write,
)
from mcpagg.problems import ConfigError, Drift, Problem, count

if TYPE_CHECKING:
    from mcpagg.command.arguments import Run
    from mcpagg.compilation import Compilation

FRAMEWORK_HINT = (
    "Agent frameworks that hand names to model APIs need portable ones: --names portable, when "
    "compiling or when the file is run"
)
HAS_CRLF = (
    "has CRLF line ends, compared as LF; `{} text eol=lf` in .gitattributes keeps them as written"
)
MOVE_FIRST = (
    "Before you paste into the config that was compiled, move the entries that are there to another"
    " file, and compile that one from then on: a config that starts its own proxy is refused"
)
ONE_NAME = "give -o, --report and --sbom one each"
SERVES = {
    "live": "If a server lists something else later, that is served at once, and reported on"
    " standard error; with --locked, only what was reviewed is served",
    "warn": "If a server lists something else later, what was compiled is listed all the same, and"
    " the change is reported on standard error; with --locked, only what was reviewed is served",
    "refuse": "If a server lists something else later, that is withheld, and reported on standard"
    " error",
}
"""What is served under each policy of drift."""
SBOM_INSTALL = "pip install cyclonedx-python-lib"
OTHER_MANIFEST = "has another manifest"
UNGUARDED = (
    "It may hold credentials: on Windows the permissions of its folder decide who can read it"
)
OTHER_PACKAGES = "lists packages of which registries have news"
REFRESH = "--refresh NAME takes those there are, to be reviewed"
SUMMARY_WIDTH = 100


def check_targets(file: Path | None, run: Run) -> None:
    """Check, before anything is started, that every file can be written in the end.

    Raises:
        ConfigError: one cannot.
    """
    if run.sbom:
        try:
            import mcpagg.review.sbom  # noqa: F401
        except ImportError as missing:
            what = f"needs {missing.name}, which is not installed"
            raise ConfigError("--sbom", [Problem("", what, SBOM_INSTALL)]) from None
    others = [Path(target) for target in (run.page, run.sbom) if target]
    targets = [*([] if file is None else [file]), *others]
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise ConfigError(PROGRAM, [Problem("", "two files would have one name", ONE_NAME)])
    if file is not None:
        check_name(file)
    for target in others if run.check else targets:
        check_target(target)
    if run.against and not Path(run.against).is_file():
        raise ConfigError("--against", [Problem("", f"there is no file {run.against}")])


def compare(file: Path, result: Compilation, run: Run, again: str) -> None:
    """Report how FILE differs from a compilation; `again` is the command that compiles it.

    Raises:
        Drift: it does, in a way that counts.
    """
    from mcpagg.review.changes import Change
    from mcpagg.review.report import print_review
    from mcpagg.review.reviewing import AS_COMPILED, review

    before, since = _compared_file(file, run)
    old = on_disk(before)
    if CRLF in old:
        say(f"{before}: {HAS_CRLF.format(before.name)}")
    comparison = review(file, old, result, run.fail_on, since, structural=run.structural)
    if not since and is_extension(file) and old and not _has_same_contents(file, result):
        other = Change("file", "", "proxy", what=OTHER_MANIFEST)
        comparison = replace(comparison, changes=(*comparison.changes, other))
    if comparison.changes or run.report != "text":
        print_review(comparison, run.report)
    elif not run.quiet:
        say(f"{file}: is {f'as {since}' if since else 'up to date'}")
    if comparison.fails and since:
        raise Drift(str(file), [Problem("", f"is not as {since} in what counts")])
    if comparison.fails and comparison.is_of_packages:
        raise Drift(str(file), [Problem("", OTHER_PACKAGES, REFRESH)])
    if comparison.fails:
        what = f"is not {AS_COMPILED}"
        remedy = _installing(file) or f"compile it again: {again}"
        raise Drift(str(file), [Problem("", what, remedy)])
    if comparison.changes:
        say(f"{file}: nothing has changed that counts")


def _installing(file: Path) -> str:
    """Return how what has changed is taken over where entries of a client start FILE, else ""."""
    from mcpagg.install.record import read_record, record_for

    if is_extension(file) or not record_for(file).exists():
        return ""
    configs = sorted({config for config, _ in read_record(file).entries})
    return f"take it over: {_install_command(configs[0])}" if configs else ""


def _install_command(config: str) -> str:
    """Return the command that installs what a client's config has."""
    from mcpagg.clients import client_of

    return f"{PROGRAM} --from {client_of(Path(config)) or 'CLIENT'} --install"


def _has_same_contents(file: Path, result: Compilation) -> bool:
    """Whether the contents of an extension are as compiled now, however zlib compressed them."""
    from mcpagg.command.mcpb import held, pack

    return held(file.read_bytes()) == held(pack(result))


def _compared_file(file: Path, run: Run) -> tuple[Path, str]:
    """Return the file to compare with, and its name where it is not FILE, else ""."""
    if run.against:
        return Path(run.against), Path(run.against).name
    return file, ""


def write_file(file: Path, result: Compilation, run: Run) -> None:
    """Write FILE, and report what it has and what has changed in it.

    Raises:
        ConfigError: it cannot be written.
    """
    old = on_disk(file)
    mode = READABLE if is_extension(file) else EXECUTABLE
    write(file, _content(file, result), PRIVATE if result.options.allow_secrets else mode)
    if run.report == "text" and not run.quiet:
        lines = [*_summary(file, result, run.verbose), *_client_entry(file, result, run)]
        show("\n".join([*lines, SERVES[result.options.drift], *_outdated(file, result)]))
    is_news = result.earlier.contents.rows and differs(old, result.text) and not run.quiet
    if run.report != "text" or is_news:
        from mcpagg.review.report import print_review
        from mcpagg.review.reviewing import review

        if run.report == "text":
            show("What has changed:")
        print_review(review(file, old, result), run.report, in_full=run.verbose)


def _content(file: Path, result: Compilation) -> bytes:
    """Return what a file is to hold, in the form that its name asks for."""
    if not is_extension(file):
        return result.text.encode("utf-8")
    from mcpagg.command.mcpb import pack

    return pack(result)


def write_page(page: Path, file: Path | None, result: Compilation, run: Run) -> None:
    """Write the page of a compilation, with what changes of `file` if that was compiled before.

    Raises:
        ConfigError: it cannot be written.
    """
    from mcpagg.review.html_report import render
    from mcpagg.review.reviewing import review

    changes = None
    if file is not None and result.earlier.contents.rows:
        before, since = _compared_file(file, run)
        changes = review(file, on_disk(before), result, since=since)
    text = render(result, changes).encode("utf-8")
    write(page, text, PRIVATE if result.options.allow_secrets else READABLE)


def write_bill(bill: Path, result: Compilation) -> None:
    """Write the bill of materials of a compilation.

    Raises:
        ConfigError: it cannot be written.
    """
    from mcpagg.review.sbom import bill_of_materials

    write(bill, bill_of_materials(result).encode("utf-8"), READABLE)


def _summary(file: Path, result: Compilation, verbose: bool) -> Iterator[str]:
    """Yield what a file lists and what it leaves out; `verbose` names every tool."""
    from mcpagg_runtime.launch.platforms import WINDOWS

    total = sum(len(names) for names in result.servers.values())
    yield f"{file}: {count(len(result.servers), 'server')}, {count(total, 'tool')}"
    for server, names in result.servers.items():
        line = f"  {server}: {', '.join(names) or 'no tools'}"
        if len(line) > SUMMARY_WIDTH and not verbose:
            line = f"  {server}: {count(len(names), 'tool')} (-v names them)"
        yield line
    if composites := result.data.linked.composed.subtools:
        yield f"  composite tools: {', '.join(composites)}"
    if result.left_out:
        yield f"  left out: {', '.join(f'{name} ({why})' for name, why in result.left_out.items())}"
    if result.data.not_frozen:
        yield f"  not frozen: {', '.join(result.data.not_frozen)}"
    if kept := result.data.snapshot.kept:
        yield f"  as they were, for they failed: {', '.join(kept)}"
    if WINDOWS and result.options.allow_secrets:
        yield UNGUARDED
    if result.options.names == "auto" and not (is_extension(file) or result.is_portable):
        yield FRAMEWORK_HINT


def _outdated(file: Path, result: Compilation) -> Iterator[str]:
    """Yield which installed entries start another FILE than this one, and what renews them."""
    from mcpagg.install.planning import outdated
    from mcpagg.install.record import record_for
    from mcpagg.passes.emission.readback import digest_of

    if not is_extension(file) and record_for(file).exists():
        for config, names in outdated(file, digest_of(result.text)):
            yield (
                f"{config}: {', '.join(names)}: names an old digest of {file.name}, and does not"
                f" start: {_install_command(config)} renews it"
            )


def _client_entry(file: Path, result: Compilation, run: Run) -> Iterator[str]:
    """Yield what to paste into the client whose config was compiled, so that it starts a file."""
    from mcpagg.clients import client_of
    from mcpagg.command.pasting import faces_to_paste, for_extension, start_of, to_paste
    from mcpagg.passes.emission.readback import digest_of

    rows, minimal = result.data.rows, result.options.minimal
    digest = digest_of(result.text) if result.options.locked else ""
    start = start_of(result.name, file, rows, os.environ, minimal, digest)
    if is_extension(file):
        yield from for_extension(start, os.environ)
        return
    spec = result.data.spec
    config = Path(spec.source).absolute()
    owner = client_of(config)
    client = run.client or owner or spec.client
    place = str(config) if owner and owner == client else ""  # several may read it, in one's form
    if place:
        yield MOVE_FIRST
    yield from to_paste(start, client, place, os.environ)
    if client:
        starts = [
            start_of(name, file, {name: row}, os.environ, minimal) for name, row in rows.items()
        ]
        yield from faces_to_paste(starts, client, digest_of(result.text))
