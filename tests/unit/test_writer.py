"""The way out to a peer that reads slowly, late or never."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from wire import TIMEOUT

from mcpagg_runtime.processes import writer as write_queue
from mcpagg_runtime.processes.polling import writer_closed
from mcpagg_runtime.processes.writer import Writer

BOUND = 1 << 20


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A pipe that nobody reads yet, with a low bound for what may wait for it."""
    monkeypatch.setattr(write_queue, "MAXIMUM_WAITING_BYTES", BOUND)
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def line(mark: bytes, size: int) -> bytes:
    """Return a line of so many bytes."""
    return mark * (size - 1) + b"\n"


def read(descriptor: int, size: int) -> bytes:
    """Read so many bytes."""
    found = b""
    while len(found) < size:
        found += os.read(descriptor, size - len(found))
    return found


def test_there_is_no_room_while_too_much_waits_behind_the_line_being_written(
    pipe: tuple[int, int],
) -> None:
    out = Writer(pipe[1], private=True)
    sent = [line(b"a", 3 * BOUND), line(b"b", BOUND), line(b"c", 1)]
    for each in sent[:2]:
        out.send(each)
        assert out.has_room()
    out.send(sent[2])
    assert not out.has_room()
    assert read(pipe[0], len(sent[0])) == sent[0]
    assert out.has_room(TIMEOUT)
    assert read(pipe[0], BOUND + 1) == sent[1] + sent[2]
    assert out.flush(TIMEOUT)


def test_a_line_may_come_in_pieces_which_are_not_copied(pipe: tuple[int, int]) -> None:
    out = Writer(pipe[1], private=True)
    pieces = [bytearray(b"a" * BOUND), bytearray(b"b" * BOUND), bytearray(b"c\n")]
    out.send(b"first\n")
    out.send(*[memoryview(piece) for piece in pieces])
    out.send(b"last", b"\n")
    pieces[1][-1:] = b"!"
    sent = b"first\n" + b"".join(pieces) + b"last\n"
    assert read(pipe[0], len(sent)) == sent
    assert out.flush(TIMEOUT)


def test_lines_keep_their_order_whoever_reads_meanwhile(pipe: tuple[int, int]) -> None:
    out = Writer(pipe[1], private=True)
    sent = b"".join(b"%d\n" % number for number in range(200_000))
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read(pipe[0], len(sent))))
    reader.start()
    for each in sent.splitlines(keepends=True):
        out.send(each)
    reader.join(TIMEOUT)
    assert found == [sent]
    assert out.flush(TIMEOUT)


@pytest.mark.parametrize(
    ("seconds", "lines"), [(0.0, 2), (10.0, 9)], ids=["it takes nothing", "it falls behind"]
)
def test_what_overflows_is_reported_once_and_ends_the_sending(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, seconds: float, lines: int
) -> None:
    monkeypatch.setattr(write_queue, "STALL_SECONDS", seconds)
    reports: list[int] = []
    came = threading.Event()

    def on_overflow(waiting: int) -> None:
        reports.append(waiting)
        came.set()

    out = Writer(pipe[1], private=True, on_overflow=on_overflow)
    for size in (5 * BOUND, *[BOUND] * lines):
        out.send(line(b"x", size))
    assert not out.broken
    out.send(b"one more\n")
    assert came.wait(TIMEOUT)
    assert (out.broken, reports) == (True, [lines * BOUND])
    out.send(b"and more\n")
    assert out.has_room()
    assert not out.flush(0)
    assert read(pipe[0], 5 * BOUND) == line(b"x", 5 * BOUND)
    assert out.flush(TIMEOUT)
    assert reports == [lines * BOUND]


def test_whoever_waits_is_let_go_when_the_peer_is_gone(pipe: tuple[int, int]) -> None:
    read_end, write_end = os.pipe()
    on_broken = threading.Event()
    out = Writer(write_end, private=True, on_broken=on_broken.set)
    for _ in range(4):  # the pipe itself may hold one of them
        out.send(line(b"x", BOUND))
    assert not out.has_room()
    os.close(read_end)
    assert out.has_room(TIMEOUT)
    assert on_broken.wait(TIMEOUT)
    assert out.flush(TIMEOUT)
    out.close()


def test_a_pipe_tells_that_its_writer_is_gone_before_it_is_read() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"left")
    assert not writer_closed(read_end)
    os.close(write_end)
    assert writer_closed(read_end)
    assert os.read(read_end, 10) == b"left"
    os.close(read_end)


def test_the_memory_of_a_large_line_is_returned_once_it_is_written(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = threading.Event()
    monkeypatch.setattr(write_queue, "RETURNED_BYTES", BOUND)
    monkeypatch.setattr(write_queue, "return_memory", returned.set)
    out = Writer(pipe[1], private=True)
    out.send(line(b"a", 3 * BOUND))
    assert not returned.is_set()
    read(pipe[0], 3 * BOUND)
    assert returned.wait(TIMEOUT)
