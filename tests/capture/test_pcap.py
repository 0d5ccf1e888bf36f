# SPDX-License-Identifier: Apache-2.0
"""Containers: every format gives the same rows; a damaged file is read up to the damage, with a note."""

import gzip
import os
import random
import struct
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.capture import forge
from tests.capture.forge import (
    HANDSHAKE,
    Connection,
    frame,
    interface,
    list_batches,
    option,
    packet_block,
    pcap,
    pcapng,
    read,
    section,
)
from tests.capture.test_splits import packets_of
from zenlake import capture
from zenlake.capture import pcap as files
from zenlake.capture.diagnostics import WHY

TALK = [*HANDSHAKE, (0, frame(0)), (1, frame(7, b"world"))]


def packets():
    connection = Connection()
    return connection.open() + connection.say(TALK)


def written(tmp_path, data, name="capture"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def troubles(found):
    return [(note.packet, note.why) for note in found.notes() if note.kind == "unreadable"]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("ns", [False, True])
def test_pcap_in_both_byte_orders_and_resolutions(tmp_path, order, ns):
    times = [forge.START + 1_234_567_891 * i for i in range(9)]
    found, table = read(written(tmp_path, pcap(packets(), order=order, ns=ns, times=times)))
    assert list_batches(table) == TALK
    assert not found.notes()
    assert table["packet"].to_pylist() == [4, 5, 6, 7, 8, 9]
    expected = [t if ns else t // 1000 * 1000 for t in times[3:]]
    assert table["received"].cast("int64").to_pylist() == expected


@pytest.mark.parametrize("order", "<>")
def test_pcapng_in_both_byte_orders(tmp_path, order):
    found, table = read(written(tmp_path, pcapng(packets(), order=order)))
    assert list_batches(table) == TALK
    assert not found.notes()
    assert table["received"].cast("int64").to_pylist()[0] == forge.START + 3 * forge.STEP


@pytest.mark.parametrize(
    ("resolution", "ticks", "ns"),
    [
        (b"\x00", 1_700_000_000, 1_700_000_000_000_000_000),  # seconds
        (b"\x03", 1_700_000_000_123, 1_700_000_000_123_000_000),
        (b"\x09", 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (b"\x0a", 17_000_000_001_234_567_891, 1_700_000_000_123_456_789),  # 10**-10
        (b"\x94", 1_700_000_000 << 20 | 1 << 19, 1_700_000_000_500_000_000),  # 2**-20
        (b"\xa0", 1_700_000_000 << 32 | 3 << 30, 1_700_000_000_750_000_000),  # 2**-32
    ],
)
def test_pcapng_clock_units(tmp_path, resolution, ticks, ns):
    data = section() + interface(options=option(9, resolution) + option(0, b""))
    data += b"".join(packet_block(packet, ticks) for packet in packets())
    _, table = read(written(tmp_path, data))
    assert set(table["received"].cast("int64").to_pylist()) == {ns}


def test_pcapng_clock_offset(tmp_path):
    data = section() + interface(options=option(14, struct.pack("<q", -100)))
    data += b"".join(packet_block(packet, 1_000_000_000) for packet in packets())
    _, table = read(written(tmp_path, data))
    assert set(table["received"].cast("int64").to_pylist()) == {900_000_000_000}


def test_pcapng_with_several_interfaces_sections_and_block_kinds(tmp_path):
    one, two, three, *rest = packets()
    data = section() + interface() + interface(101, options=option(9, b"\x09"))
    data += forge.block(0x0BAD, b"private") + forge.block(4, b"")  # a custom block, an empty name resolution block
    data += packet_block(one, forge.START // 1000)
    data += packet_block(
        two[14:], forge.START, interface=1
    )  # the same flow, without its Ethernet header, on the other one
    data += forge.block(3, struct.pack("<I", len(three)) + three)  # a simple packet block
    data += section(">") + interface(1, ">")
    obsolete = struct.pack(">HHIIII", 0, 0, 0, 5, len(rest[0]), len(rest[0])) + rest[0]
    data += forge.block(2, obsolete, ">")
    data += forge.block(9, b"__REALTIME_TIMESTAMP=1\n", ">")  # a journal entry; Wireshark numbers it
    data += b"".join(packet_block(packet, forge.START // 1000, order=">") for packet in rest[1:])
    found, table = read(written(tmp_path, data))
    assert list_batches(table) == TALK
    assert not found.notes()
    assert table["packet"].to_pylist() == [4, 6, 7, 8, 9, 10]


def test_packets_that_the_kernel_dropped_are_counted(tmp_path):
    data = pcapng(packets())
    counts = option(5, struct.pack("<Q", 3)) + option(7, struct.pack("<Q", 4)) + option(0, b"")
    data += forge.block(5, struct.pack("<III", 0, 0, 0) + counts)
    found, _ = read(written(tmp_path, data))
    assert [(note.kind, note.count) for note in found.notes()] == [("dropped", 7)]


def test_drops_recorded_per_packet_are_counted(tmp_path):
    data = section() + interface()
    for packet in packets():
        data += packet_block(packet, 1, options=option(4, struct.pack("<Q", 2)) + option(0, b""))
    found, _ = read(written(tmp_path, data))
    assert [(note.kind, note.count) for note in found.notes()] == [("dropped", 18)]


def test_gzip_and_zstd(tmp_path):
    plain = pcap(packets())
    for name, data in (("a.gz", gzip.compress(plain)), ("a.zst", pa.compress(plain, "zstd", asbytes=True))):
        found, table = read(written(tmp_path, data, name))
        assert list_batches(table) == TALK
        assert not found.notes()


def test_a_compressed_file_in_many_pieces(tmp_path):
    connection = Connection()
    talk = [*HANDSHAKE, *((0, frame(i, bytes([i % 251]) * 3000)) for i in range(300))]
    plain = pcap(connection.open() + connection.say(talk))
    _, table = read(written(tmp_path, gzip.compress(plain, 1)))
    assert list_batches(table) == talk


@pytest.mark.parametrize("flavour", [pcap, pcapng])
@pytest.mark.parametrize("from_packet", [0, 40])  # midway: the listening end is found by looking ahead
def test_it_does_not_matter_where_a_window_ends(tmp_path, monkeypatch, flavour, from_packet):
    everything = packets_of(7)[from_packet:]
    everything[20:20] = [b"\0" * 5000]  # larger than most windows, and not a packet
    path = written(tmp_path, flavour(everything))
    found, table = read(path)
    assert len(table) > 50
    for window in (1, 100, 1000, 10_000):
        monkeypatch.setattr(files, "WINDOW", window)
        again, rows = read(path)
        assert rows == table
        assert again.notes() == found.notes()
        assert again.faces == found.faces


def test_a_file_truncated_during_reading_keeps_the_read_packets(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WINDOW", 1000)
    connection = Connection()
    talk = [*HANDSHAKE, *((0, frame(i, bytes(100))) for i in range(100))]
    path = written(tmp_path, pcap(connection.open() + connection.say(talk)))
    found = capture.open(path, rows=10)
    batches = found.batches()
    first = next(batches)
    os.truncate(path, path.stat().st_size // 2)
    table = pa.Table.from_batches([first, *batches])
    assert list_batches(table) == talk[: len(table)]
    assert 40 < len(table) < 60
    assert "truncated" in troubles(found)[0][1]


def test_packets_appended_during_reading_are_left_for_the_next_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WINDOW", 100)
    path = written(tmp_path, pcap(packets()))
    found = capture.open(path, rows=1)
    batches = found.batches()
    first = next(batches)
    with path.open("ab") as file:
        file.write(b"half a header")
    assert list_batches(pa.Table.from_batches([first, *batches])) == TALK
    assert not found.notes()


def test_standard_input(tmp_path):
    path = written(tmp_path, pcap(packets()))
    code = "from zenlake import capture; print(sum(len(b) for b in capture.open('-').batches()))"
    for command in (f'cat {path} | {sys.executable} -c "{code}"', f'{sys.executable} -c "{code}" < {path}'):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        assert done.stdout == "6\n"


def test_a_rotation_is_one_capture_in_any_order(tmp_path):
    everything = packets()
    paths = []
    for i in range(3):
        times = [forge.START + (3 * i + k) * forge.STEP for k in range(3)]
        paths.append(written(tmp_path, pcap(everything[3 * i : 3 * i + 3], times=times), f"{i}.pcap"))
    found, table = read(paths[2], paths[0], paths[1])
    assert found.files == [str(path) for path in paths]
    assert list_batches(table) == TALK
    assert len(found.faces) == 1
    assert table["file"].to_pylist() == [1, 1, 1, 2, 2, 2]
    assert table["packet"].to_pylist() == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("cut", [1, 15, 17, 40])
def test_a_truncated_file_keeps_its_whole_packets(tmp_path, cut):
    found, table = read(written(tmp_path, pcap(packets())[:-cut]))
    assert list_batches(table) == TALK[:-1]
    ((packet, why),) = troubles(found)
    assert packet == 8
    assert "ends inside a packet" in why


def test_a_truncated_pcapng_keeps_its_whole_packets(tmp_path):
    found, table = read(written(tmp_path, pcapng(packets())[:-5]))
    assert list_batches(table) == TALK[:-1]
    assert "ends inside a packet" in troubles(found)[0][1]


@pytest.mark.parametrize("name", ["gz", "zst"])
def test_a_truncated_compressed_file_keeps_readable_packets(tmp_path, name):
    connection = Connection()
    talk = [*HANDSHAKE, *((0, frame(i, bytes((i * k) & 0xFF for k in range(2000)))) for i in range(600))]
    plain = pcap(connection.open() + connection.say(talk))
    data = gzip.compress(plain) if name == "gz" else pa.compress(plain, "zstd", asbytes=True)
    found, table = read(written(tmp_path, data[: len(data) * 9 // 10]))
    assert list_batches(table) == talk[: len(table)]
    assert len(table) > 100
    assert "compressed data" in troubles(found)[0][1]


@pytest.mark.parametrize("flavour", [pcap, pcapng])
def test_an_absurd_length_ends_the_file_with_a_note(tmp_path, flavour):
    whole = flavour(packets())
    damage = struct.pack("<IIII", 6, 0x7FFFFFFC, 0x7FFFFFFC, 0)
    found, table = read(written(tmp_path, whole + damage))
    assert list_batches(table) == TALK
    assert "damaged" in troubles(found)[0][1]


def test_a_packet_of_an_interface_that_was_never_described(tmp_path):
    found, table = read(written(tmp_path, pcapng(packets()) + packet_block(b"x" * 60, 1, interface=9)))
    assert list_batches(table) == TALK
    assert "its interface is not declared" in troubles(found)[0][1]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04" + bytes(100), "neither pcap nor pcapng"),
        (b"\xd4\xc3\xb2", "neither pcap nor pcapng"),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "without a byte order"),
        (b"\x1f\x8b" + bytes(30), "compressed data"),
    ],
)
def test_a_file_that_is_not_a_capture_is_refused(tmp_path, data, why):
    found, table = read(written(tmp_path, data))
    assert len(table) == 0
    assert why in troubles(found)[0][1]


def test_a_bad_file_among_good_ones_does_not_stop_them(tmp_path):
    good = written(tmp_path, pcap(packets()), "good.pcap")
    bad = written(tmp_path, b"rubbish" * 20, "bad.pcap")
    found, table = read(bad, good)
    assert list_batches(table) == TALK
    assert [note.file for note in found.notes()] == [found.files.index(str(bad))]


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere.pcap")


def test_a_capture_can_be_read_again(tmp_path):
    found, table = read(written(tmp_path, pcap(packets())))
    assert pa.Table.from_batches(found.batches()) == table
    assert len(found.faces) == 1


@pytest.mark.parametrize("seed", range(40))
def test_damage_never_raises_and_every_row_stays_well_formed(tmp_path, seed):
    chance = random.Random(seed)
    data = bytearray(chance.choice([pcap, pcapng])(packets()))
    for _ in range(chance.choice([1, 5, 40])):
        at = chance.randrange(24, len(data))
        if chance.random() < 0.7:
            data[at] = chance.randrange(256)
        elif chance.random() < 0.5:
            del data[at : at + chance.choice([1, 4, 60])]
        else:
            data[at:at] = chance.randbytes(chance.choice([1, 4, 60]))
    found, table = read(written(tmp_path, data), rows=3, held=chance.choice([100, 1 << 20]))
    assert set(table["face"].to_pylist()) <= {face.id for face in found.faces}
    assert all(note.kind in WHY and note.why for note in found.notes())
