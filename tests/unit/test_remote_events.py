"""Streams of server-sent events are cut into events, however they are written."""

from __future__ import annotations

import pytest

from mcpagg_runtime.remote import responses
from mcpagg_runtime.remote.responses import EventReader, TooLarge


def read(*chunks: bytes) -> list[tuple[str, bytes]]:
    reader = EventReader()
    return [(event.kind, event.data) for chunk in chunks for event in reader.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_line_ends_in_any_of_three_ways(end: bytes) -> None:
    text = end.join([b"event: message", b"data: 1", b"", b"data: 2", b"data: 3", b"", b""])
    assert read(text) == [("message", b"1"), ("message", b"2\n3")]
    pieces = [text[index : index + 1] for index in range(len(text))]
    assert read(*pieces) == [("message", b"1"), ("message", b"2\n3")]


def test_line_ends_may_be_mixed_and_cut_in_two() -> None:
    assert read(b"data: 1\r", b"\n\r", b"\ndata: 2\n\r\n") == [("message", b"1"), ("message", b"2")]


def test_comments_and_events_without_data_are_nothing() -> None:
    assert read(b": ping\n\nevent: ping\ndata:\n\nid: 7\n\nretry: 5\n\nother: x\n\n") == []


def test_a_mark_of_utf_8_is_no_part_of_the_first_line() -> None:
    assert read(b"\xef\xbb\xbfdata: 1\n\n") == [("message", b"1")]


def test_one_blank_behind_the_colon_is_no_part_of_the_value() -> None:
    assert read(b"data:1\n\ndata:  2\n\ndata\n\n") == [("message", b"1"), ("message", b" 2")]


def test_an_id_counts_once_its_event_has_ended() -> None:
    reader = EventReader()
    reader.feed(b"id: 1\ndata:\n\nid: 2\ndata: x")
    assert reader.last_id == "1"
    reader.restart()
    assert [event.data for event in reader.feed(b"data: y\n\n")] == [b"y"]
    assert reader.last_id == "1"


def test_an_id_with_a_null_is_ignored_and_the_pause_is_in_milliseconds() -> None:
    reader = EventReader()
    reader.feed(b"id: 1\nid: a\0b\nretry: 250\nretry: soon\n\n")
    assert (reader.last_id, reader.retry) == ("1", 0.25)


@pytest.mark.parametrize("line", [b"data: " + b"x" * 90, b"data: xxx\n" * 10])
def test_an_event_has_a_largest_size(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAXIMUM_LINE_BYTES", 80)
    reader = EventReader()
    reader.feed(line[:70])
    with pytest.raises(TooLarge):
        reader.feed(line[70:])


def test_many_small_events_are_no_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAXIMUM_LINE_BYTES", 80)
    reader = EventReader()
    assert sum(len(reader.feed(b"data: xxxx\n\n")) for _ in range(100)) == 100
