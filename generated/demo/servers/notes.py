"""Notes that are kept while the server runs, each with its author: $NOTES_AUTHOR."""

from __future__ import annotations

import os

from mcp_server import Server

server = Server("notes", "Keeps short notes for the time of a session. They are gone afterwards.")
author = os.environ.get("NOTES_AUTHOR", "anonymous")
notes: dict[int, str] = {}


@server.tool(read_only=False, text="What to remember")
def add(text: str) -> str:
    """Write down a note and return its number."""
    number = max(notes, default=0) + 1
    notes[number] = text
    return f"note {number} by {author}"


@server.tool(word="Only notes that contain this word or phrase, in any case")
def find(word: str = "") -> str:
    """List the notes, all of them or those with a word."""
    found = [f"{number}. {text}" for number, text in notes.items() if word.lower() in text.lower()]
    return "\n".join(found) or "no notes"


@server.tool(read_only=False, number="The number of the note")
def remove(number: int) -> str:
    """Throw a note away."""
    if number not in notes:
        raise ValueError(f"there is no note {number}")
    return f"removed: {notes.pop(number)}"


server.run()
