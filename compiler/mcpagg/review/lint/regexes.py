r"""Whether a text is a regular expression of JavaScript, which is what JSON Schema means by one.

The grammar is that of ECMA 262 with the flag `u`, by which validators compile a `pattern`. It is
stricter than Python's and than JavaScript's without the flag: no `\A`, no `(?P<name>…)`, no
needless `\-`. What only newer engines know (modifiers, a group name that stands twice) is accepted,
and so is every name of a Unicode property.
"""

from __future__ import annotations

import re

_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_CLASSES = frozenset("dDsSwW")
_CONTROLS = dict(zip("fnrtv", "\f\n\r\t\v", strict=True))
_QUANTIFIER = re.compile(r"(?:[*+?]|\{([0-9]+)(?:,([0-9]*))?\})\??")
_GROUP = re.compile(r"\((\?<[=!]|\?[=!]|\?<([^\W\d]|\$)[\w$]*>|\?[ims]*(?:-[ims]+)?:|(?!\?))")
_PROPERTY = re.compile(r"[pP]\{\w+(?:=\w+)?\}", re.ASCII)
_NAME = re.compile(r"k<([^>]+)>")
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{0*([0-9a-fA-F]{1,6})\}")
_LAST_CODE_POINT = 0x10FFFF


class _Fault(ValueError):
    """Raised with what is wrong."""


def regex_fault(pattern: str) -> str:
    """Say why a text is no regular expression, "" if it is one."""
    try:
        _Parser(pattern).parse()
    except _Fault as fault:
        return str(fault)
    return ""


class _Parser:
    """Reads a pattern from left to right; `at` is the index of the next character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.groups = 0
        self.names: set[str] = set()
        self.numbers_meant: list[int] = []
        self.names_meant: list[str] = []

    def parse(self) -> None:
        """Read all of it.

        Raises:
            _Fault: it breaks the grammar.
        """
        open_groups: list[bool] = []  # whether each may be repeated
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "(":
                open_groups.append(self._group())
            elif char == ")":
                if not open_groups:
                    raise _Fault("a parenthesis is closed that is not open")
                self.at += 1
                self._quantifier(repeatable=open_groups.pop())
            else:
                self._quantifier(repeatable=self._atom(char))
        if open_groups:
            raise _Fault("a parenthesis is not closed")
        if any(number > self.groups for number in self.numbers_meant):
            raise _Fault("it refers to a group that it does not have")
        if not self.names.issuperset(self.names_meant):
            raise _Fault("it refers to a group that it does not have")

    def _group(self) -> bool:
        """Read the beginning of a group; return whether the group may be repeated."""
        match = _GROUP.match(self.pattern, self.at)
        if match is None:
            raise _Fault(f"{self.pattern[self.at : self.at + 4]!r} begins no group")
        self.at = match.end()
        if match[2]:
            self.names.add(match[1][2:-1])
        if match[2] or not match[1]:
            self.groups += 1
        return match[1] not in ("?=", "?!", "?<=", "?<!")

    def _atom(self, char: str) -> bool:
        """Read what stands for characters or a place; return whether it may be repeated."""
        self.at += 1
        if char == "\\":
            if self.pattern[self.at : self.at + 1] in ("b", "B"):
                self.at += 1
                return False
            self._escape()
        elif char == "[":
            self._class()
        elif char in "*+?{}]":
            raise _Fault(f"{char!r} has nothing to repeat" if char in "*+?" else f"a lone {char!r}")
        return char not in "^$|"

    def _quantifier(self, *, repeatable: bool) -> None:
        """Read how often something is repeated, if it says so."""
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            return
        if not repeatable:
            raise _Fault(f"{match[0]!r} has nothing to repeat")
        if match[2] and int(match[1]) > int(match[2]):
            raise _Fault(f"{match[0]!r} counts down")
        self.at = match.end()

    def _class(self) -> None:
        """Read a set of characters behind its opening bracket."""
        if self.pattern[self.at : self.at + 1] == "^":
            self.at += 1
        while self._peek() != "]":
            first = self._member()
            if self._peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self._member()
                if not first or not last or first > last:
                    raise _Fault("a range of characters without two ends in order")
        self.at += 1

    def _member(self) -> str:
        """Read one member of a set; return the character, "" for several."""
        char = self._peek()
        self.at += 1
        if char != "\\":
            return char
        if self._peek() in ("b", "-"):
            self.at += 1
            return "\b" if self.pattern[self.at - 1] == "b" else "-"
        return self._escape(in_class=True)

    def _escape(self, *, in_class: bool = False) -> str:
        """Read what stands behind a backslash; return the character, "" for several."""
        char = self._peek()
        start, self.at = self.at, self.at + 1
        if char in _CLASSES:
            return ""
        if char in _SYNTAX:
            return char
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and not self.pattern[self.at : self.at + 1].isdecimal():
            return "\0"
        if char == "c" and re.match("[a-zA-Z]", self.pattern[self.at :]):
            self.at += 1
            return chr(ord(self.pattern[self.at - 1]) % 32)
        if match := _CODE.match(self.pattern, start):
            code = int(match[1] or match[2] or match[3], 16)
            if code <= _LAST_CODE_POINT:
                self.at = match.end()
                return chr(code)
        if match := _PROPERTY.match(self.pattern, start):
            self.at = match.end()
            return ""
        if not in_class and (match := _NAME.match(self.pattern, start)):
            self.names_meant.append(match[1])
            self.at = match.end()
            return ""
        if not in_class and (match := re.compile("[1-9][0-9]*").match(self.pattern, start)):
            self.numbers_meant.append(int(match[0]))
            self.at = match.end()
            return ""
        raise _Fault(f"JavaScript knows no '\\{char}'")

    def _peek(self) -> str:
        if self.at >= len(self.pattern):
            raise _Fault("it ends too early")
        return self.pattern[self.at]
