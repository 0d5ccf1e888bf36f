# SPDX-License-Identifier: Apache-2.0
"""Arrow schema of raw Zenoh batches, from captures and wire logs to the decoder. One row is one batch."""

import pyarrow as pa

BATCHES_SCHEMA = pa.schema(
    [
        # When the batch was complete at the observer: in a capture, the time of the packet that completed it.
        pa.field("received", pa.timestamp("ns", tz="UTC"), nullable=False),
        # Which session, as an index into the list of faces that travels beside the rows.
        pa.field("face", pa.int32(), nullable=False),
        # 0 = sent by the opener (TCP's connector, the sender of InitSyn), 1 = by the acceptor; multicast, scouting: 0.
        pa.field("direction", pa.int8(), nullable=False),
        # One batch: transport messages, decompressed, without the stream's length prefix and the compression header.
        pa.field("batch", pa.binary(), nullable=False),
        # Bytes it took on the wire above TCP or UDP: the length prefix counts, as does the compression header.
        pa.field("wire_size", pa.int32(), nullable=False),
        # Whether these bytes travelled as an LZ4 block; in a compressed session a batch that would not shrink did not.
        pa.field("compressed", pa.bool_(), nullable=False),
        # The packet that completed the batch, numbered from 1 in its file as Wireshark does.
        pa.field("packet", pa.int64(), nullable=False),
        # Which file that packet is in, as an index into the list of files.
        pa.field("file", pa.int32(), nullable=False),
    ]
)
