# SPDX-License-Identifier: Apache-2.0
"""The wire log: raw batches of all faces, durable and readable from any block.

`Writer` writes blocks, `Recorder` records a live node without blocking it, and `Log` reads. `decode` returns tables,
`Retention` removes old segments, `Mirror` copies to an object store, and `export` writes a capture. docs/design/log.md
describes the guarantees.
"""

from zenlake.log.decode import Damaged, decode, decode_ranges
from zenlake.log.mirror import Mirror
from zenlake.log.pcapng_export import export
from zenlake.log.reader import BlockRange, Log, Offsets, Segment, is_log, offsets_text
from zenlake.log.recorder import FaceTee, Recorder
from zenlake.log.retention import Retention, readers, register, retain, unregister
from zenlake.log.session_state import LogFace
from zenlake.log.writer import Writer

__all__ = [
    "Damaged",
    "LogFace",
    "FaceTee",
    "Log",
    "Mirror",
    "Offsets",
    "BlockRange",
    "Recorder",
    "Retention",
    "Segment",
    "Writer",
    "decode",
    "decode_ranges",
    "export",
    "is_log",
    "offsets_text",
    "readers",
    "register",
    "retain",
    "unregister",
]
