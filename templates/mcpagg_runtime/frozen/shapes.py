"""The shapes of the fields of a frozen server.

They become parts of paths, of locks and of code, so nothing else passes.
"""

from __future__ import annotations

import re

NESTED = ">"
"""What separates the folders of an npm package: each lies in the one before it."""
_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NPM_NAME = r"(?:@[\w~-][\w.~-]*/)?[\w~!'()*-][\w.~!'()*-]*"
_PYPI_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PART = r"[^/\\:\s\0\ud800-\udfff]+"
SHAPES = {
    name: re.compile(shape)
    for name, shape in {
        "name": _NPM_NAME,
        "path": f"{_NPM_NAME}(?:{NESTED}{_NPM_NAME})*",
        "version": r"[A-Za-z0-9][A-Za-z0-9.+!_-]*",
        "integrity": r"sha512-[A-Za-z0-9+/]+={0,2}",
        # Of a path below `node_modules`: neither absolute, nor out of it, on no system.
        "bin": rf"(?!\.{{1,2}}(?:/|$)){_PART}(?:/(?!\.{{1,2}}(?:/|$)){_PART})+",
        "list": r"!?[\w.-]+(?:,!?[\w.-]+)*",
        "url": r"https?://[!-~]+",
        "distribution": rf"{_PYPI_NAME}(?:\[[A-Za-z0-9._,-]*\])?",
        "entry": rf"[^\s=]+={_DOTTED}(?::{_DOTTED})?",
        "python": r"python(?:[<>=!]=|[<>])\d[\d.]*(?:\.\*)?(?:,(?:[<>=!]=|[<>])\d[\d.]*(?:\.\*)?)*",
        "hashes": r"[A-Za-z0-9_-]{43}(?:,[A-Za-z0-9_-]{43})*",
        "builder": r"[a-z0-9.-]+(?:/[a-z0-9._@+-]+)*",
        "marker": r"(?!.*--)[A-Za-z0-9_ .'\"<>=!~(),*+-]+",
        "image": r"[A-Za-z0-9][A-Za-z0-9._:/-]*",
        "tag": r"\w[\w.-]*",
        "digest": r"sha256:[0-9a-f]{64}",
        "language": "node|python",
        "number": "[0-9]{1,9}",
    }.items()
}
