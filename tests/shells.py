"""What the shell of Windows and a program behind it make of a command line, as far as tests need.

Written from the rules that are known of them, not from the code that quotes: the first phase of
cmd.exe replaces variables, in quotes or not; its second one takes characters for itself outside of
quotes; and the C runtime of the program splits what is left into arguments.
"""

from __future__ import annotations

VARIABLES = {"cd": "C:\\here", "path": "C:\\bin", "x": "1"}
SPECIAL = "&|<>()^"


def runs(line: str) -> list[str]:
    """Return the arguments that a program gets, its own name first.

    Raises:
        ValueError: the shell takes something of the line for itself.
    """
    expanded = _expanded(line)
    quoted = False
    for character in expanded:
        quoted ^= character == '"'
        if not quoted and character in SPECIAL:
            raise ValueError(f"the shell acts upon {character!r}: {expanded}")
    return _split(expanded)


def _expanded(line: str) -> str:
    """Replace variables as on a command line: `%` alone, or before an unknown name, stays."""
    parts, index = [], 0
    while index < len(line):
        end = line.find("%", index + 1) if line[index] == "%" else -1
        name, colon, change = line[index + 1 : max(end, 0)].partition(":")
        if end < 0 or name.lower() not in VARIABLES or (colon and change != "~,"):
            parts.append(line[index])
            index += 1
        else:
            parts.append("" if colon else VARIABLES[name.lower()])
            index = end + 1
    return "".join(parts)


def _split(line: str) -> list[str]:
    """Split as the C runtime does: 2n backslashes before a quote are n, a doubled quote is one."""
    words: list[str] = []
    word: str | None = None
    quoted, index = False, 0
    while index < len(line):
        character = line[index]
        if character in " \t" and not quoted:
            if word is not None:
                words.append(word)
            word = None
            index += 1
            continue
        word = word or ""
        backslashes = len(line[index:]) - len(line[index:].lstrip("\\"))
        index += backslashes
        if line[index : index + 1] == '"':
            word += "\\" * (backslashes // 2)
            if backslashes % 2:
                word += '"'
            elif quoted and line[index + 1 : index + 2] == '"':
                word += '"'
                index += 1
            else:
                quoted = not quoted
            index += 1
        elif backslashes:
            word += "\\" * backslashes
        else:
            word += character
            index += 1
    return words if word is None else [*words, word]
