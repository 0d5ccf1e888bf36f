# SPDX-License-Identifier: Apache-2.0
"""The wire log: raw batches of all faces, durable, readable from any block on.

`Writer` writes, `Recorder` lets a live node write without waiting, `Log` reads, `decode` makes tables, `Retention` says how long,
`Mirror` copies to an object store, `export` makes a capture of it. docs/design/log.md tells what is promised.
"""

from zenlake.log.decoded import Damaged, decode, decode_ranges
from zenlake.log.export import export
from zenlake.log.mirror import Mirror
from zenlake.log.read import Log, Offsets, Range, Segment, is_log, offsets_text
from zenlake.log.record import FaceTee, Recorder
from zenlake.log.retain import Retention, readers, register, retain, unregister
from zenlake.log.state import Face
from zenlake.log.write import Writer

__all__ = [
    "Damaged",
    "Face",
    "FaceTee",
    "Log",
    "Mirror",
    "Offsets",
    "Range",
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
