# SPDX-License-Identifier: Apache-2.0
"""Schemas of the decoded tables: name, type and meaning of each column.

Types are those that Arrow, Parquet, DuckDB and Spark share: no unsigned numbers, no dictionaries. The comment of a
column states when it is null. The first columns of each table identify the source of the row.
"""

import pyarrow as pa

STRING = pa.string()
BINARY = pa.binary()
INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
BOOL = pa.bool_()
MICROSECONDS = pa.timestamp("us", tz="UTC")

VERSION = 1


def _schema(table: str, row: str, *fields: tuple[str, pa.DataType, str]) -> pa.Schema:
    return pa.schema(
        [pa.field(name, type_, metadata={"comment": comment}) for name, type_, comment in fields],
        metadata={"zenlake.table": table, "zenlake.version": str(VERSION), "comment": row},
    )


_WHERE = (
    ("received", MICROSECONDS, "When the batch was received, by the recorder's clock; null in notes about a capture"),
    ("received_ns", INT64, "The same in nanoseconds since 1970, exact; null in notes about a capture"),
    ("log", STRING, "The identity of the log; null in a capture"),
    (
        "writer",
        STRING,
        "The writer of the log. Names of sessions are unique for each log and writer; null in a capture",
    ),
    ("session", STRING, "The session that it belongs to"),
    (
        "generation",
        INT32,
        "Which handshake of that session, from 1; 0 if that was not recorded, null in notes about a capture",
    ),
    ("direction", INT8, "0 = sent by the side that opened the session, 1 = by the side that accepted it"),
    ("file", STRING, "The capture file; null in a log"),
    ("segment", INT64, "The segment of the log in which the batch ended; null in a capture"),
    ("block", INT32, "The block of that segment, from 0; null in a capture"),
    ("row", INT32, "The batch's number inside its block, from 0; null in a capture"),
    ("packet", INT64, "The packet in which the batch ended, as Wireshark counts; in a log, the number of the batch"),
    ("index", INT32, "The message's number inside its packet, from 0; in a log, inside its batch"),
)

MESSAGES = _schema(
    "messages",
    "One transport, network or scouting message.",
    *_WHERE,
    ("type", STRING, "The message: FRAME, PUSH, REQUEST, DECLARE, INIT, SCOUT ..."),
    ("body", STRING, "What it carries: PUT, DEL, QUERY, REPLY, ERR, D_SUBSCRIBER ...; null if nothing"),
    ("size", INT64, "Its bytes on the wire, header included, after decompression and rejoining"),
    ("fragments", INT32, "In how many fragments it came; null if whole"),
    ("priority", INT8, "The lane's priority, 0 control to 7 background; null outside a lane"),
    ("reliable", BOOL, "The lane's reliability; null outside a lane"),
    ("sn", INT64, "The lane's sequence number; null outside a lane"),
    ("accepted", BOOL, "False if the frame is a duplicate or older than one already seen: receivers ignore it"),
    (
        "qos",
        INT16,
        "The message's own QoS byte: bits 0-2 priority, 8 block, 16 express, 32 block first; null if it has none",
    ),
    ("key", STRING, "The key expression, ids resolved; null if it has none or the id's declaration was not seen"),
    ("unresolved_key", STRING, "Id and suffix of a key whose declaration was not seen, as '12:/pose'"),
    ("id", INT64, "Request, interest or declaration id; OAM id; null if it has none"),
    ("payload_size", INT64, "Bytes of payload; null if it has none"),
    ("unknown_exts", INT32, "Number of unknown extensions"),
    ("target", STRING, "Of a REQUEST: whom it asks, best_matching, all or all_complete; null otherwise"),
    ("consolidation", STRING, "Of a REQUEST: auto, none, monotonic or latest; null otherwise"),
    ("timeout_ms", INT64, "Of a REQUEST: how long it may take; null otherwise and if it does not say"),
    (
        "detail",
        STRING,
        "What else it says, in words: a close reason, a query's parameters, an ERR's text up to 4 KiB ...",
    ),
)

SAMPLES = _schema(
    "samples",
    "One PUT or DEL, published or sent as a reply.",
    *_WHERE,
    ("key", STRING, "The key expression, ids resolved; null if the id's declaration was not seen"),
    ("unresolved_key", STRING, "Id and suffix of a key whose declaration was not seen, as '12:/pose'"),
    ("kind", STRING, "put or del"),
    ("payload", BINARY, "The value; null for a del, for a value in shared memory, and for one that was not kept"),
    ("payload_size", INT64, "Bytes of the value, also if it was not kept; null for a del and for shared memory"),
    (
        "payload_sha256",
        STRING,
        "SHA-256 of a redacted payload (--metadata-only), in hex; null otherwise",
    ),
    ("shm", BINARY, "The reference to a value in shared memory, as it travelled; null otherwise"),
    ("encoding", STRING, "The content type as text, zenoh/bytes if none was given; null for a del"),
    ("schema", BINARY, "The encoding's schema, as bytes; null if it has none"),
    ("timestamp", MICROSECONDS, "HLC time of the sample; null if it was not stamped"),
    ("ntp64", INT64, "The same, exact, as the 64 bits of NTP64 since 1970; order by (timestamp, ntp64)"),
    ("timestamp_id", STRING, "The node whose clock stamped it"),
    ("source_zid", STRING, "The node that published it; null unless it says so (SourceInfo)"),
    ("source_eid", INT64, "The publisher in that node"),
    ("source_sn", INT64, "The publisher's own count"),
    ("attachment", BINARY, "The attachment, or null"),
    ("priority", INT8, "0 control to 7 background, 5 is the default"),
    ("congestion", STRING, "What a full queue does with it: drop, block or block_first"),
    ("express", BOOL, "Whether it asked not to wait for others in a batch"),
    ("reliable", BOOL, "Whether it came on a reliable lane; null in low latency, which has none"),
    ("sn", INT64, "The lane's sequence number; null in low latency"),
    ("fragments", INT32, "In how many fragments it came; null if whole"),
    ("request_id", INT64, "The request that it answers; null for a publication"),
    ("responder_zid", STRING, "The node that answered; null for a publication and where it does not say"),
    ("responder_eid", INT64, "The queryable in that node"),
)

DECLARATIONS = _schema(
    "declarations",
    "One declaration or undeclaration of a key id, subscriber, queryable or token; one interest.",
    *_WHERE,
    ("action", STRING, "declare, undeclare, interest, final (that was all) or end (no more interest)"),
    ("kind", STRING, "key, subscriber, queryable or token; null for interests and final"),
    ("id", INT64, "The id that the declaring side gave it"),
    ("key", STRING, "The key expression, ids resolved; null if it has none or the id's declaration was not seen"),
    ("unresolved_key", STRING, "Id and suffix of a key whose declaration was not seen, as '12:/pose'"),
    ("interest_id", INT64, "The interest that it answers; null if unsolicited"),
    ("complete", BOOL, "Of a queryable: it has all there is; null otherwise"),
    ("distance", INT32, "Of a queryable: how far; null otherwise"),
    ("mode", STRING, "Of an interest: current, future or both; null otherwise"),
    (
        "wants",
        STRING,
        "Of an interest: which of keys, subscribers, queryables, tokens, aggregated, as letters K S Q T A",
    ),
)

EVENTS = _schema(
    "events",
    "What happened to a session or to the recording: opened, closed, a gap, something left out.",
    *_WHERE,
    ("kind", STRING, "opened, closed, joined, gap, duplicate, lost, redeclared; docs/tables says what each cannot see"),
    ("priority", INT8, "The lane's priority, where it is about a lane"),
    ("reliable", BOOL, "The lane's reliability, where it is about a lane"),
    ("sn", INT64, "The first sequence number concerned"),
    ("count", INT64, "How many: missing frames, or a CLOSE's reason code"),
    ("detail", STRING, "What happened, in words; for opened, joined: what was agreed, as JSON"),
)

ERRORS = _schema(
    "errors",
    "Bytes that could not be decoded: where, why, and the bytes.",
    *_WHERE,
    ("field", STRING, "Message and field that could not be read, such as PUT.payload"),
    ("at", INT64, "The byte of the batch at which reading stopped"),
    ("why", STRING, "Why"),
    ("bytes", BINARY, "The batch, up to 64 KiB of it"),
)

TABLES: dict[str, pa.Schema] = {
    "messages": MESSAGES,
    "samples": SAMPLES,
    "declarations": DECLARATIONS,
    "events": EVENTS,
    "errors": ERRORS,
}


def select_schema(table: str, columns: list[str] | None = None) -> pa.Schema:
    """Return the schema of a table, or of some columns in this order. Raise with the valid names."""
    if table not in TABLES:
        raise ValueError(f"unknown decoded table {table!r}; expected one of {', '.join(TABLES)}")
    schema = TABLES[table]
    if columns is None:
        return schema
    wrong = [name for name in columns if name not in schema.names]
    if wrong:
        raise ValueError(f"{table} has no column {wrong[0]!r}; expected one of {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
