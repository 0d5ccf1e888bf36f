# SPDX-License-Identifier: Apache-2.0
"""Datagrams of which only the beginning was captured: their lane and number are known, and the rest of the gap is a loss."""

import lz4.block
import pytest

import zenlake
from tests.capture import forge
from tests.capture.forge import HANDSHAKE, frame, on_link, udp
from tests.capture.test_headers import fragments4
from zenlake.capture import open as open_capture
from zenlake.capture.decode import decode
from zenlake.capture.diagnostics import FILTER, SNAP_LENGTH, Diagnostics
from zenlake.capture.partial_datagrams import read_frame_headers

CLIENT, SERVER = ("10.0.0.2", 40000), ("10.0.0.1", 7447)
LARGE = b"v" * 5000


def sent(side, batch, id):
    """Return the IP packets of one datagram, fragmented if it is large."""
    (src, sport), (dst, dport) = (CLIENT, SERVER) if side == 0 else (SERVER, CLIENT)
    return fragments4(udp(sport, dport, batch), 1480, id, src, dst)


def talk(numbers, keep=lambda sn, packets: packets, large=lambda sn: sn % 2):
    """Return a handshake, then frames of the opener with these sequence numbers."""
    packets = [packet for id, (side, batch) in enumerate(HANDSHAKE) for packet in sent(side, batch, id)]
    for sn in numbers:
        packets += keep(sn, sent(0, frame(sn, LARGE if large(sn) else b"small"), 100 + sn))
    return packets


def gaps(path):
    found = zenlake.read(path, "gaps").to_pylist()
    return sorted((gap["first_sn"], gap["missing"], gap["cause"]) for gap in found)


def written(folder, packets, **options):
    path = folder / "forged.pcap"
    path.write_bytes(forge.pcap(packets, **options))
    return path


def test_fragments_that_the_filter_dropped_are_of_the_recording_and_losses_of_the_network(tmp_path):
    sent_numbers = [sn for sn in range(20) if sn not in (4, 5, 12)]
    path = written(tmp_path, talk(sent_numbers, lambda sn, packets: packets[:1]))
    assert gaps(path) == [
        (1, 1, "recording"), (3, 1, "recording"), (3, 2, "network"), (7, 1, "recording"), (9, 1, "recording"),
        (11, 1, "network"), (11, 2, "recording"), (15, 1, "recording"), (17, 1, "recording"),
    ]  # fmt: skip
    events = [row for row in zenlake.read(path, "events").to_pylist() if row["kind"] == "capture incomplete"]
    assert {row["detail"] for row in events} == {FILTER}
    assert {row["session"] for row in events} == {"udp/10.0.0.2:40000->10.0.0.1:7447"}
    assert sum(row["count"] for row in events) == 9  # includes 19, although no later frame shows that it is missing


def test_with_the_fragments_of_another_datagram_a_missing_fragment_is_lost(tmp_path):
    path = written(tmp_path, talk(range(10), lambda sn, packets: packets[:-1] if sn in (3, 7) else packets))
    assert gaps(path) == [(3, 1, "network"), (7, 1, "network")]
    assert "capture incomplete" not in zenlake.read(path, "events")["kind"].to_pylist()


def test_the_snap_length_cuts_frames_off(tmp_path):
    path = written(tmp_path, talk([0, 1, 2, 3, 6, 7, 8]), snaplen=200)
    assert gaps(path) == [(1, 1, "recording"), (3, 1, "recording"), (3, 2, "network"), (7, 1, "recording")]
    whole = [on_link("ethernet", forge.ipv4("10.0.0.2", "10.0.0.1", 17, udp(40000, 7447, frame(sn, LARGE[:1000]))))
             for sn in (3, 4)]  # fmt: skip
    path = written(tmp_path, [*talk(range(3), large=lambda sn: False), *whole, *sent(0, frame(5), 9)], snaplen=200)
    assert gaps(path) == [(3, 2, "recording")]
    [event] = [row for row in zenlake.read(path, "events").to_pylist() if row["kind"] == "capture incomplete"]
    assert (event["sn"], event["count"], event["detail"]) == (3, 2, SNAP_LENGTH)


def test_datagrams_with_the_same_identifier_are_different(tmp_path):
    """Each socket of a host has its own counter of IP identifiers."""
    packets = [packet for id, (side, batch) in enumerate(HANDSHAKE) for packet in sent(side, batch, id)]
    for sn in range(6):
        packets += sent(0, frame(sn, b"%d" % sn * 5000 if sn in (1, 3, 4) else b"small"), 7)[:1]
    assert gaps(written(tmp_path, packets)) == [(1, 1, "recording"), (3, 2, "recording")]


def test_a_capture_in_ranges_has_the_same_incomplete_frames(tmp_path):
    path = written(tmp_path, talk([sn for sn in range(60) if sn not in (4, 5, 12)], lambda sn, packets: packets[:1]))
    whole = [batch.to_pylist() for _, batch in decode(open_capture(path), {"events": None})][-1]
    plan = open_capture(path).plan(size=500)
    assert len(list(plan.ranges())) > 10
    assert [(each.sn, each.priority, each.reliable, each.direction) for each in plan.notes()] == [
        (row["sn"], row["priority"], row["reliable"], row["direction"]) for row in whole
    ]


def test_the_headers_in_a_compressed_batch_are_read_if_they_are_literals():
    batch = frame(300, LARGE)
    block = lz4.block.compress(batch, store_size=False)
    assert read_frame_headers(b"\x01" + block[:20], 1) == [(5, True, 300)]
    assert read_frame_headers(b"\x00" + batch[:20], 1) == [(5, True, 300)]
    assert read_frame_headers(b"\x01", 1) == read_frame_headers(b"", 1) == read_frame_headers(b"\x25", 0) == []


@pytest.mark.parametrize("limit", [3, 1 << 16])
def test_runs_are_limited_and_no_frame_is_uncounted(monkeypatch, limit):
    monkeypatch.setattr(Diagnostics, "MAX_ENTRIES", limit)
    notes = Diagnostics()
    for sn in range(0, 40, 2):
        notes.add_incomplete(FILTER, 0, sn + 1, 7, 0, (5, True, sn))
    rows = notes.rows()
    assert len(rows) == min(limit + 1, 20)
    assert sum(row.count for row in rows) == 20
    assert sum(row.sn is None for row in rows) == (limit == 3)
