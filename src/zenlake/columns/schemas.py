# SPDX-License-Identifier: Apache-2.0
"""Schemas of the decoded tables: name, type and meaning of each column.

Types are those that Arrow, Parquet, DuckDB and Spark share: no unsigned numbers, no dictionaries. The comment of a
column states when it is null. The first columns of each table identify the source of the row.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

STRING = pa.string()
BINARY = pa.binary()
INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
BOOL = pa.bool_()
MICROSECONDS = pa.timestamp("us", tz="UTC")
STACK = pa.list_(
    pa.field(  # of the name that Parquet, Delta and Iceberg give to it
        "element",
        pa.struct(
            [
                ("point", STRING),
                ("timestamp", MICROSECONDS),
                ("ntp64", INT64),
                ("timestamp_id", STRING),
                ("data", BINARY),
            ]
        ),
    )
)

VERSION = 1


def _schema(table: str, row: str, *fields: tuple[str, pa.DataType, str]) -> pa.Schema:
    return pa.schema(
        [pa.field(name, type_, metadata={"comment": comment}) for name, type_, comment in fields],
        metadata={"zenlake.table": table, "zenlake.version": str(VERSION), "comment": row},
    )


_WHERE = (
    ("received", MICROSECONDS, "Receive time of the batch by the recorder's clock; null in events about a capture"),
    ("received_ns", INT64, "Receive time in nanoseconds since 1970; null in events about a capture"),
    ("log", STRING, "Identity of the log; null in a capture"),
    (
        "writer",
        STRING,
        "Writer of the log. A session name is unique within a log and writer; null in a capture",
    ),
    ("session", STRING, "Name of the session; null in events about a capture"),
    (
        "generation",
        INT32,
        "Number of the session's handshake, from 1; 0 if it was not recorded; null in events about a capture",
    ),
    ("direction", INT8, "Sender: 0 = the side that opened the session, 1 = the side that accepted it"),
    ("file", STRING, "Capture file; null in a log"),
    ("segment", INT64, "Segment of the log that contains the end of the batch; null in a capture"),
    ("block", INT32, "Block of that segment, from 0; null in a capture"),
    ("row", INT32, "Number of the batch in its block, from 0; null in a capture"),
    (
        "packet",
        INT64,
        "Number of the packet that contains the end of the batch, as in Wireshark; in a log, the number of the batch",
    ),
    ("index", INT32, "Number of the message in its packet, from 0; in a log, in its batch"),
)

MESSAGES = _schema(
    "messages",
    "One transport, network or scouting message.",
    *_WHERE,
    ("type", STRING, "Type of the message, such as FRAME, PUSH, REQUEST, DECLARE, INIT or SCOUT"),
    ("body", STRING, "Type of its body, such as PUT, DEL, QUERY, REPLY, ERR or D_SUBSCRIBER; null if it has no body"),
    ("size", INT64, "Size in bytes with header, after decompression and reassembly"),
    ("fragments", INT32, "Number of fragments; null if it was not fragmented"),
    ("priority", INT8, "Priority of the lane, 0 (control) to 7 (background); null outside a lane"),
    ("reliable", BOOL, "Reliability of the lane; null outside a lane"),
    ("sn", INT64, "Sequence number in the lane; null outside a lane"),
    ("accepted", BOOL, "False if receivers ignore the frame, because it is a duplicate or older than an earlier one"),
    (
        "qos",
        INT16,
        "QoS byte of the message: bits 0-2 priority, 8 block, 16 express, 32 block first; null if it has none",
    ),
    (
        "key",
        STRING,
        "Key expression with resolved id; null if it has no key, or the declaration of the id was not recorded",
    ),
    ("unresolved_key", STRING, "Id and suffix of a key whose declaration was not recorded, as '12:/pose'"),
    ("id", INT64, "Id of the request, interest, declaration or OAM; null if it has none"),
    ("payload_size", INT64, "Size of the payload in bytes; null if it has none"),
    ("unknown_exts", INT32, "Number of unknown extensions"),
    ("target", STRING, "Target of a REQUEST: best_matching, all or all_complete; null otherwise"),
    ("consolidation", STRING, "Consolidation mode of a REQUEST: auto, none, monotonic or latest; null otherwise"),
    ("timeout_ms", INT64, "Timeout of a REQUEST in milliseconds; null otherwise, or if not given"),
    (
        "detail",
        STRING,
        "Further content as text: close reason, parameters of a query, text of an ERR up to 4 KiB, position of a FRAGMENT "
        "(first, last), and similar",
    ),
)

SAMPLES = _schema(
    "samples",
    "One PUT or DEL, published or sent as a reply.",
    *_WHERE,
    ("key", STRING, "Key expression with resolved id; null if the declaration of the id was not recorded"),
    ("unresolved_key", STRING, "Id and suffix of a key whose declaration was not recorded, as '12:/pose'"),
    ("kind", STRING, "put or del"),
    ("payload", BINARY, "Payload; null for a del, for a payload in shared memory, and for a redacted payload"),
    (
        "payload_size",
        INT64,
        "Size of the payload in bytes, also if it was redacted; null for a del and for shared memory",
    ),
    (
        "payload_sha256",
        STRING,
        "SHA-256 of a redacted payload (--metadata-only), in hex; null otherwise",
    ),
    ("shm", BINARY, "Reference to a payload in shared memory, as sent; null otherwise"),
    ("encoding", STRING, "Encoding as text, zenoh/bytes if none was given; null for a del"),
    ("schema", BINARY, "Schema of the encoding, as bytes; null if it has none"),
    ("timestamp", MICROSECONDS, "HLC time of the sample; null if it has no timestamp"),
    ("ntp64", INT64, "HLC time as the 64 bits of NTP64 since 1970, exact; order by (timestamp, ntp64)"),
    ("timestamp_id", STRING, "ZenohID of the clock that issued the timestamp"),
    ("source_zid", STRING, "ZenohID of the publishing node; null if the sample has no SourceInfo"),
    ("source_eid", INT64, "Entity id of the publisher in that node"),
    ("source_sn", INT64, "Sequence number of the publisher"),
    ("attachment", BINARY, "Attachment; null if it has none"),
    ("priority", INT8, "Priority of the message, 0 (control) to 7 (background); default 5"),
    ("congestion", STRING, "Congestion control: drop, block or block_first"),
    ("express", BOOL, "Whether the sender requested transmission without batching"),
    ("reliable", BOOL, "Reliability of its lane; null in low latency mode, which has no lanes"),
    ("sn", INT64, "Sequence number in the lane; null in low latency mode"),
    ("fragments", INT32, "Number of fragments; null if it was not fragmented"),
    ("request_id", INT64, "Request id that a reply belongs to; null for a publication"),
    ("responder_zid", STRING, "ZenohID of the replying node; null for a publication, or if not given"),
    ("responder_eid", INT64, "Entity id of the queryable in that node"),
    (
        "timestamp_stack",
        STACK,
        "Timestamps of the nodes on the way, oldest first. Each has a point (send, route, receive) and a time, or data in a "
        "custom format; null if the message has no valid stack",
    ),
)

DECLARATIONS = _schema(
    "declarations",
    "One declaration or undeclaration of a key id, subscriber, queryable or token; one interest.",
    *_WHERE,
    (
        "action",
        STRING,
        "declare, undeclare, interest, final (all current declarations were sent) or end (of an interest)",
    ),
    ("kind", STRING, "key, subscriber, queryable or token; null for interests and final"),
    ("id", INT64, "Id of the declaration or interest, assigned by its sender"),
    (
        "key",
        STRING,
        "Key expression with resolved id; null if it has no key, or the declaration of the id was not recorded",
    ),
    ("unresolved_key", STRING, "Id and suffix of a key whose declaration was not recorded, as '12:/pose'"),
    ("interest_id", INT64, "Id of the interest that it replies to; null if it is not a reply"),
    ("complete", BOOL, "Whether a queryable is complete; null otherwise"),
    ("distance", INT32, "Distance of a queryable, in hops; null otherwise"),
    ("mode", STRING, "Mode of an interest: current, future or both; null otherwise"),
    (
        "wants",
        STRING,
        "Options of an interest as letters: K keys, S subscribers, Q queryables, T tokens, A aggregate; null otherwise",
    ),
)

EVENTS = _schema(
    "events",
    "One event of a session or of the recording, such as opened, closed, a gap or missing packets.",
    *_WHERE,
    ("kind", STRING, "Kind of event, such as opened, closed, gap or lost; docs/tables.md lists all kinds"),
    ("priority", INT8, "Priority of the lane; null if the event does not concern a lane"),
    ("reliable", BOOL, "Reliability of the lane; null if the event does not concern a lane"),
    ("sn", INT64, "First sequence number concerned; null if not applicable"),
    ("count", INT64, "Number of missing frames, batches or packets; for closed, the reason code of the CLOSE"),
    ("detail", STRING, "Description; for opened and joined, the negotiated parameters as JSON"),
)

ERRORS = _schema(
    "errors",
    "One batch that could not be decoded: the field, the byte, the reason and the bytes.",
    *_WHERE,
    ("field", STRING, "Message and field that could not be decoded, such as PUT.payload"),
    ("at", INT64, "Offset in the batch at which decoding stopped, in bytes"),
    ("why", STRING, "Reason of the error"),
    ("bytes", BINARY, "Bytes of the batch, at most 64 KiB"),
)

TABLES: dict[str, pa.Schema] = {
    "messages": MESSAGES,
    "samples": SAMPLES,
    "declarations": DECLARATIONS,
    "events": EVENTS,
    "errors": ERRORS,
}


def select_schema(
    table: str, columns: Sequence[str] | None = None, tables: Mapping[str, pa.Schema] = TABLES
) -> pa.Schema:
    """Return the schema of a table, or of some columns in this order. Raise with the valid names."""
    if table not in tables:
        raise ValueError(f"unknown decoded table {table!r}; expected one of {', '.join(tables)}")
    schema = tables[table]
    if columns is None:
        return schema
    wrong = [name for name in columns if name not in schema.names]
    if wrong:
        raise ValueError(f"{table} has no column {wrong[0]!r}; expected one of {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
