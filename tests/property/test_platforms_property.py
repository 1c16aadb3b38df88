"""What is handed to a batch file of Windows arrives, whatever it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from shells import runs

from mcpagg_runtime.launch.windows_programs import batch_line

# Pieces that mean something to one of the two readers, and any other characters.
PIECES = ['"', "\\", "%", "%cd%", "%PATH%", "%cd:~,%", "^", "&", "|", " ", "\t", "!", "=", "x", "é"]
WORDS = st.lists(st.sampled_from(PIECES) | st.characters(exclude_characters="\0\r\n")).map("".join)


@given(st.lists(WORDS))
def test_arguments_arrive_as_they_are(words: list[str]) -> None:
    argv = ["C:\\100% mine\\run.cmd", *words]
    assert runs(batch_line(argv)) == argv
