# SPDX-License-Identifier: Apache-2.0
"""Arrow schema of raw Zenoh batches, from captures and wire logs to the decoder. One row is one batch."""

import pyarrow as pa

BATCHES_SCHEMA = pa.schema(
    [
        # When the batch was complete at the observer: in a capture, the time of the packet that completed it.
        pa.field("received", pa.timestamp("ns", tz="UTC"), nullable=False),
        # The session, as an index into the list of faces that accompanies the rows.
        pa.field("face", pa.int32(), nullable=False),
        # 0 = sent by the opener (TCP's connector, the sender of InitSyn), 1 = by the acceptor; multicast, scouting: 0.
        pa.field("direction", pa.int8(), nullable=False),
        # One batch: transport messages, decompressed, without the stream's length prefix and the compression header.
        pa.field("batch", pa.binary(), nullable=False),
        # Size on the wire above TCP or UDP in bytes. It includes the length prefix and the compression header.
        pa.field("wire_size", pa.int32(), nullable=False),
        # Whether the batch was sent as an LZ4 block. A compressed session sends a batch that would not shrink as it is.
        pa.field("compressed", pa.bool_(), nullable=False),
        # The packet that completed the batch, numbered from 1 in its file as Wireshark does.
        pa.field("packet", pa.int64(), nullable=False),
        # The file of that packet, as an index into the list of files.
        pa.field("file", pa.int32(), nullable=False),
    ]
)
