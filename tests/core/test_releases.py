# SPDX-License-Identifier: Apache-2.0
"""Releases inferred from the handshakes of real nodes."""

import pytest

from zenlake.core.releases import known_incompatibilities, likely_release
from zenlake.session import SessionState
from zenlake.wire.cursor import Cursor
from zenlake.wire.handshake import Init, Open

# InitSyn of wheels with default settings, and the OpenSyn that follows: with shared memory as number, as bytes, or none.
OLD = "c109f2787125789a90f2be9258fbdb8fb7719d0ac8ff812701"  # 1.0.4; 1.5.1 sends the same fields
SHARED = (
    "c109f2d1a7ae27b128b8a95a616982060d1efc0ac8ff81c205c281c29e0b2701"  # 1.9.0; 1.6.2 and 1.10.2 send the same fields
)
NAMED = "c10911bbbb0ac8ff81a7014804" + b"edge".hex()  # 1.9 or newer, with `region_name`
PLAIN = "8109f2c98dbfd7b9747c696e295ad0210d5dab812701"  # Zenlake
UNKNOWN = "1.0 to 1.5, or newer without shared memory"


@pytest.mark.parametrize(
    ("init", "open", "release"),
    [
        (OLD, "420a0700", UNKNOWN), (SHARED, "420a0700", "1.6 or newer"), (SHARED, "c20a07002205", "1.6 to 1.9"),
        (SHARED, "c20a070042020500", "1.10 or newer"), (NAMED, "420a0700", "1.9 or newer"),
        (OLD, "c20a07002701", "1.9 or newer"), (NAMED, "c20a0700a20527" + "01", "1.9"), (PLAIN, "420a0700", None),
    ],
)  # fmt: skip
def test_the_release_of_an_opener(init: str, open: str, release: str | None) -> None:
    session = SessionState()
    session.init(0, Init().decode(Cursor(bytes.fromhex(init))))
    session.on_open(0, Open().decode(Cursor(bytes.fromhex(open))))
    assert likely_release(session.opener.traits, True) == release
    assert SessionState.restore(session.save()).opener.traits == session.opener.traits


def test_known_incompatibilities_are_those_that_every_release_of_the_range_has() -> None:
    assert known_incompatibilities(None) == known_incompatibilities("1.6 or newer") == []
    assert known_incompatibilities("1.6 to 1.9") == ["no timestamp stack", "no shared memory with 1.10"]
    assert len(known_incompatibilities("1.9")) == 2
