"""Writes the images, sounds and blobs of a tool's result to files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# Not from the system's tables: the same result gives the same names everywhere.
_ENDINGS = {
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
}


class Folder:
    """Where files are saved. Their names are ours, 1.png, 2.bin: a server cannot choose a place."""

    def __init__(self, path: str) -> None:
        """Make the folder, if there is none.

        Raises:
            OSError: it cannot be made.
        """
        os.makedirs(path, exist_ok=True)
        self.path = path
        self._number = 0

    def saved(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's result with `file` in the place of each `data` or `blob`.

        Raises:
            OSError: a file cannot be written.
        """
        content = result.get("content")
        if type(content) is not list:
            return result
        return {**result, "content": [self._without_data(block) for block in content]}

    def _without_data(self, block: Any) -> Any:
        if type(block) is not dict:
            return block
        if type(block.get("resource")) is dict:
            return {**block, "resource": self._replaced(block["resource"], "blob")}
        return self._replaced(block, "data")

    def _replaced(self, holder: dict[str, Any], member: str) -> dict[str, Any]:
        """Write what a member holds; one that is no base64 stays as it is."""
        import base64

        try:
            data = base64.b64decode(holder.get(member, ""), validate=True)
        except (ValueError, TypeError):
            return holder
        if member not in holder:
            return holder
        file = self._write(data, _ENDINGS.get(str(holder.get("mimeType")), ".bin"))
        return {
            ("file" if name == member else name): (file if name == member else value)
            for name, value in holder.items()
        }

    def _write(self, data: bytes, ending: str) -> str:
        """Write a new file, never over one that is there; return its path."""
        while True:
            self._number += 1
            path = os.path.join(self.path, f"{self._number}{ending}")
            try:
                with open(path, "xb") as file:
                    file.write(data)
            except FileExistsError:
                continue
            return path
