# SPDX-License-Identifier: Apache-2.0
"""Recordings for the report's tests: the sample, halves of it, and a malicious one."""

import dpkt
import pyarrow as pa
import pyarrow.parquet as pq

import zenlake
from tests.capture import forge
from tests.log.fixtures import Hasty
from tests.tables.fixtures import row
from tests.tables.test_matrix import subscription
from tests.tables.test_publications import EVENTS, hop
from zenlake.log import Writer
from zenlake.sample_captures import sample
from zenlake.tables import DERIVED
from zenlake.tables.schemas import TABLES

ROUTER = 17447

HOSTILE = (
    "</script><script>window.harmed=1</script>",
    '<img src=x onerror="window.harmed=2">',
    "a'\"`;window.harmed=3//",
    "<!--policy--><!--data-->",
    "javascript:window.harmed=4",
    "{{constructor.constructor('window.harmed=5')()}}",
    "rtl\u202egnp.exe",
    "\u2028line\u2029ends\x00here",
    "${window.harmed=6}",
    "&lt;script&gt;&#x3c;",
)
INHERITED = ("__proto__", "constructor", "toString", "hasOwnProperty")
"""Keys that every object of JavaScript inherits."""


def port_of_client(packet):
    ip = dpkt.ethernet.Ethernet(packet).data
    return ip.data.dport if ip.data.sport == ROUTER else ip.data.sport


def packets():
    with open(sample(), "rb") as file:
        return list(dpkt.pcap.Reader(file))


def part_of_sample(path, keep):
    """A capture with some of the sample's packets: those for which `keep(time, client's port)`."""
    with open(path, "wb") as file:
        writer = dpkt.pcap.Writer(file, linktype=1)
        for time, packet in packets():
            if keep(time, port_of_client(packet)):
                writer.writepkt(packet, time)
    return str(path)


def halves(folder):
    """Write the sample as recorded at the robots, and at the operator, which receives most."""
    ports = [port_of_client(packet) for _, packet in packets()]
    operator = max(set(ports), key=ports.count)
    robots = part_of_sample(folder / "robots.pcap", lambda _, port: port != operator)
    return robots, part_of_sample(folder / "base.pcap", lambda _, port: port == operator)


def hostile(path):
    """Write a session with keys and values that try to break a page, and an invalid batch."""
    words = [f"evil/{text}".encode() for text in HOSTILE] + [text.encode() for text in INHERITED]
    batches = [*forge.HANDSHAKE]
    for n, key in enumerate(words):
        batches.append((0, b"\x25" + forge.vle(n) + forge.push(key, key)))
    batches.append(
        (0, b"\x25" + forge.vle(len(words)) + b"\x3d\x00\x08demo/key\x01\x7f<b>short</b>")
    )  # 127 bytes declared
    connection = forge.Connection()
    sent = [connection.send(side, forge.add_prefix(batch)) for side, batch in batches]
    with open(path, "wb") as file:
        writer = dpkt.pcap.Writer(file, linktype=1)
        for n, packet in enumerate(sent):
            writer.writepkt(packet, 1_700_000_000 + n * 0.1)
    return str(path)


def tables_of_sample(names=(*TABLES, *DERIVED)):
    return {name: zenlake.read(sample(), name) for name in names}


def lake_of(tables, folder):
    """Write a lake without Zenlake: a folder for each table, samples by day."""
    for name, table in tables.items():
        where = folder / name / "day=2026-11-16" if name == "samples" else folder / name
        where.mkdir(parents=True)
        pq.write_table(table, where / "part-0.parquet")
    return folder


def lake_of_rows(folder, **rows):
    return lake_of({name: pa.Table.from_pylist(each, schema=TABLES[name]) for name, each in rows.items()}, folder)


def slow_subscriber():
    """Ten samples of a client, through a router, to a subscriber of all and to one that receives two, 31 s later.

    There are a subscription without a publisher and a publisher that publishes nothing, too.
    """
    second = 1_000_000
    samples = [hop(40 * second, "up", 0, b"end", key="end")]
    for n in range(10):
        samples.append(hop(second + 100 * n, "up", 0, b"%d" % n))
        samples.append(hop(second + 100 * n + 20, "down1", 1, b"%d" % n, second + 100 * n + 10))
    for n in range(2):
        samples.append(hop(32 * second + 100 * n, "down2", 1, b"%d" % n, second + 100 * n + 10))
    declared = [subscription("down1", "k"), subscription("down1", "other/**", id=2)]
    declared += [subscription("down2", "**"), subscription("down2", "@/router", id=3)]
    for id, (key, wants) in enumerate([("k", "KS"), ("silent", "KS"), ("alive", "KT")]):
        declared.append(row(9, 9, 0, "up", action="interest", mode="both", id=id, key=key, wants=wants))
    messages = [row(0, 0, 0, "up", type="FRAME")]
    return {"samples": samples, "declarations": declared, "messages": messages, "events": EVENTS}


def log_of(capture, folder):
    """Write the batches of a capture as a wire log of a router."""
    recorded = zenlake.capture.open(capture)
    with Writer(folder, "router", sync="sealed", disk=Hasty()) as writer:
        faces = {}
        for batches in recorded.batches():
            for row in batches.to_pylist():
                if row["face"] not in faces:
                    face = recorded.faces[row["face"]]
                    ends = (f"{host}:{port}" for host, port in (face.client, face.server))
                    faces[row["face"]] = writer.face(face.protocol, *ends)
                at = int(row["received"].value)
                writer.append(
                    faces[row["face"]], row["direction"], row["batch"], row["wire_size"], row["compressed"], at
                )
    return folder
