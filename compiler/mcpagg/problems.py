"""The compiler's errors, by whose fault they are.

Every pass collects all its problems and raises once, so that one run shows them all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

NO_OTHERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault or warning: where it is, what is wrong, and what to do about it.

    `where` is a JSON path into the config (`mcpServers.github.env.TOKEN`), or empty when the
    whole file is meant. Neither text ever holds a value of the environment.
    """

    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line: `where: what; remedy`."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.remedy}" if self.remedy else text


def folded(problems: Iterable[Problem], servers: Collection[str]) -> list[Problem]:
    """Return problems of which those that say the same of one key of several servers are one.

    `servers` are the paths of the entries.
    """
    alike: dict[tuple[str, str, str], list[Problem]] = {}
    for problem in problems:
        key = re.sub(r"\[\d+\]$", "", problem.where).rpartition(".")[2]
        alike.setdefault((key, problem.what, problem.remedy), []).append(problem)
    result = []
    for first, *more in alike.values():
        if not more or not first.where:
            result += [first, *more]
            continue
        places = {problem.where for problem in (first, *more)}
        holders = {path for path in servers for place in places if is_within(place, path)}
        of = f" in {count(len(holders), 'server')}" if holders else ""
        what = f"{first.what} ({count(len(places), 'place')}{of}, see -v)"
        result.append(Problem(first.where, what, first.remedy))
    return result


def is_within(place: str, path: str) -> bool:
    """Whether a JSON path is another one, or leads from it."""
    return place == path or place.startswith((f"{path}.", f"{path}["))


def suggest(word: str, known: Iterable[str], usual: Mapping[str, str] = NO_OTHERS) -> str:
    """Return the remedy for a word that is not known: the one that looks most like it, or "".

    `usual` are the words to advise in the place of some that are known.
    """
    near = nearest(word, known)
    return f"did you mean `{usual.get(near, near)}`?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the word that looks most like one, in any case, or that one abbreviates; else ""."""
    import difflib  # only who has made a mistake waits for it

    words: dict[str, str] = {}
    for other in known:
        words.setdefault(other.lower(), other)
    word = word.lower()
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.7)
    longer = [other for other in words if len(word) > 2 and other.startswith(word)]
    close = close or (longer if len(longer) == 1 else [])
    return words[close[0]] if close else ""


def count(number: int, what: str) -> str:
    """Return a number of things in words: `1 tool`, `2 tools`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


SHOWN_NAMES = 8


def name_list(names: Sequence[str], most: int = SHOWN_NAMES) -> str:
    """Return names as a list to read, the first ones of many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


class InternalFault(Exception):
    """Base of what the compiler raises for a fault of its own; `str()` holds no value of a user."""


class CompileError(Exception):
    """Base of all errors that the command line reports; `str()` gives a line for each problem."""

    exit_code: ClassVar[int] = 2

    def __init__(self, source: str, problems: Iterable[Problem], advice: str = "") -> None:
        """`source` is the config's name as the user wrote it.

        `advice` is what helps against all of it, "" where each problem has its own remedy.
        """
        self.source = source
        self.advice = advice
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


class Drift(CompileError):
    """Raised by `--check` when the file on disk is not what compiling now would write."""

    exit_code = 1


class ConfigError(CompileError):
    """Raised when the command line or the config cannot be understood."""

    exit_code = 2


class EnvironmentFault(CompileError):
    """Raised when the environment lacks something that the config needs."""

    exit_code = 3


class ChildFault(CompileError):
    """Raised when a child did not start or did not answer; tells its status and last stderr."""

    exit_code = 4


class NameClash(CompileError):
    """Raised when two tools would be exposed under one name."""

    exit_code = 5
