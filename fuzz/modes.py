# SPDX-License-Identifier: Apache-2.0
# Any bytes give the same tables, samples and errors in compiled and in uncompiled modules.
"""Compiled against uncompiled: each input also runs in a process of the other mode."""

import os
import subprocess
import sys
from functools import cache

from fuzz import columns, peer
from zenlake.wire.raw_memory import COMPILED

CORPUS = [bytes([0]) + data for data in columns.CORPUS] + [bytes([1]) + data for data in peer.CORPUS]


def describe(data: bytes) -> str:
    """Return what this process makes of an input, as text."""
    if data[:1] == b"\1":
        return repr(peer.receive([data[1:]], arrow=True))
    found = columns.tables(columns.FAST_PATH, columns.as_rows([(columns.OPENER, data[1:])]))
    return repr({name: [batch.to_pylist() for batch in batches] for name, batches in found.items()})


@cache
def partner() -> "subprocess.Popen[str]":
    """Return the process of the other mode. It ends with this one."""
    environment = {name: value for name, value in os.environ.items() if name != "ZENLAKE_PURE"}
    return subprocess.Popen(
        [sys.executable, "-c", "from fuzz.modes import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment | ({"ZENLAKE_PURE": "1"} if COMPILED else {}),
    )  # fmt: skip


def serve() -> None:
    for line in sys.stdin:
        print(describe(bytes.fromhex(line)).encode("unicode_escape").decode(), flush=True)


def check(data: bytes) -> None:
    process = partner()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(data.hex() + "\n")
    process.stdin.flush()
    own = describe(data).encode("unicode_escape").decode()
    assert process.stdout.readline().rstrip("\n") == own
