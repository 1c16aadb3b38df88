"""The parts of pages that are made from the code: `python tests/pages.py` writes them anew.

Such a part stands between two comments of a page, the first of which names what makes it. That a
page has what is made now is a test of `unit/test_readmes.py`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from core import plan

from mcpagg.command.arguments import GROUPS, PRINTED, REPORTED, Run
from mcpagg.options import Option, Options, flag_of, options_of
from mcpagg_runtime.frozen.commands import CommandLine

ROOT = Path(__file__).resolve().parents[1]

PART = re.compile(r"(<!-- made by tests/pages.py: (\w+) -->\n).*?(<!-- until here -->\n)", re.S)
"""A part of a page, with the name of the function that makes it."""

FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]*")


def compiler_options() -> Iterator[str]:
    """Yield the options of `mcpagg-compile`: a table for each heading of its `--help`."""
    declared = options_of(Run) | options_of(Options)
    recorded = options_of(Options)
    for group in GROUPS:
        own = {name: how for name, (how, _) in declared.items() if how.group == group}
        rows = [(_spelled(name, how), _meaning(how.help)) for name, how in own.items()]
        if group == REPORTED:
            rows += [(f"`{flag}`", f"print {what}") for flag, what in PRINTED.items()]
        note = "FILE records these.\n\n" if own.keys() <= recorded.keys() else ""
        yield f"### {group.capitalize()}\n\n{note}{_table(rows)}\n"


def proxy_options() -> Iterator[str]:
    """Yield the options of the emitted file, as a table."""
    shown = [each for each in proxy_parser()._actions if each.help != argparse.SUPPRESS]
    yield _table([(_usage(action), _meaning(action.help or "")) for action in shown])


def proxy_parser() -> argparse.ArgumentParser:
    """Return what reads the command line of a file that takes every option."""
    whole = plan({"db": ["query"]}, profiles={"small": {"db": ["query"]}})
    return CommandLine(whole, "").parser()


def _spelled(name: str, how: Option) -> str:
    """Return how an option is given, as a cell of a table."""
    takes = "\\|".join(how.help) if isinstance(how.help, Mapping) else how.value[0]
    if how.flags == (name,):
        return f"`{name.upper()}`"
    if how.alone:
        return f"`{flag_of(name)}[={takes}]`"
    return _flags(how.flags or (flag_of(name),), takes)


def _usage(action: argparse.Action) -> str:
    """Return how an option of the emitted file is given, as a cell of a table."""
    takes = action.metavar
    if action.choices:
        takes = "\\|".join(map(str, action.choices)) if action.dest != "profile" else "NAME"
    elif takes is None and action.nargs != 0:
        takes = action.dest.upper()
    words = takes if isinstance(takes, tuple) else [takes or ""]
    return _flags(action.option_strings, " ".join(words) + ("…" if action.nargs == "+" else ""))


def _flags(flags: Iterable[str], takes: str) -> str:
    return ", ".join(f"`{f'{flag} {takes}'.rstrip()}`" for flag in flags)


def _meaning(about: str | Mapping[str, str]) -> str:
    """Return what an option means, as a cell of a table."""
    if isinstance(about, Mapping):
        return "; ".join(f"`{word}`: {_meaning(what)}" for word, what in about.items())
    return FLAG.sub(r"`\g<0>`", re.sub(r"[|*<]", r"\\\g<0>", about.replace("%%", "%")))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(
        ["| option | what it does |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
    )


MAKERS: dict[str, Callable[[], Iterator[str]]] = {
    maker.__name__: maker for maker in (compiler_options, proxy_options)
}


def renewed(page: str) -> str:
    """Return the text of a page with all that is made for it."""
    return PART.sub(lambda part: "".join([part[1], _made(part[2]), part[3]]), page)


def _made(name: str) -> str:
    return "\n" + "\n".join(MAKERS[name]()) + "\n\n"


def pages_with_parts() -> list[Path]:
    """Return the pages that have a part which is made."""
    pages = (
        path for folder in ("", "compiler", "templates") for path in (ROOT / folder).glob("*.md")
    )
    return sorted(path for path in pages if PART.search(path.read_text("utf-8")))


def main() -> None:
    """Write each page anew that is not up to date, and name it."""
    for path in pages_with_parts():
        text = path.read_text("utf-8")
        if (now := renewed(text)) != text:
            path.write_text(now, "utf-8", newline="\n")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
