# SPDX-License-Identifier: Apache-2.0
"""Fragmentation and declined options: the same bytes as eclipse-zenoh.

All other recorded reactions to hand-made bytes are replayed in `tests/network/test_probes_*.py`.
"""

from typing import Any

from tests.transport.ends import ACCEPTOR, LINK, SECRET, Collector, framed, push
from tests.vectors import rows
from zenlake.core.enums import WhatAmI
from zenlake.transport.handshake import Acceptor, Opener
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Unicast
from zenlake.wire.batch_reader import messages


def recorded(case: str) -> tuple[list[bytes], list[bytes], dict[str, Any]]:
    """Return the bytes that were sent to the router, its bytes, and the result."""
    found = [row for row in rows("probe")[1:] if row.get("scenario") == f"probe_{case}"]
    (result,) = [row["result"] for row in rows("probe")[1:] if row.get("result", {}).get("case") == case]
    sent = [bytes.fromhex(row["hex"]) for row in found if row["dir"] == "raw->router"]
    return sent, [bytes.fromhex(row["hex"]) for row in found if row["dir"] == "router->raw"], result


def replay(case: str) -> tuple[Unicast, Collector, list[bytes]]:
    """Pass the bytes for the router to our acceptor, with its own cookie instead of that of the router."""
    sent, answers, _ = recorded(case)
    heard = Collector()
    settings = Settings(ACCEPTOR, WhatAmI.ROUTER, batch_size=49152)
    acceptor = Unicast(Acceptor(settings, secret=SECRET, context=LINK, now=0.0), stream=True, sink=heard)
    said: list[bytes] = []
    for batch in sent:
        if batch[0] & 0x3F == 0x02 and case != "bad_cookie":
            theirs, ours = messages(answers[0])[0].cookie.value, messages(said[0])[0].cookie.value
            at = batch.index(bytes([len(theirs)]) + theirs)
            batch = batch[:at] + bytes([len(ours)]) + ours + batch[at + 1 + len(theirs) :]
        acceptor.receive(framed(batch), 0.0)
        while (view := acceptor.data(0.0)) is not None:
            said.append(bytes(view)[2:])
            acceptor.mark_sent(len(view), 0.0)
    return acceptor, heard, said


def test_messages_are_cut_as_the_real_router_cuts_them() -> None:
    """Case router_fragments_to_300_batch: two fragments that fill the batch, and the rest."""
    _, _, result = recorded("router_fragments_to_300_batch")
    acceptor, _, _ = replay("router_fragments_to_300_batch")
    acceptor.send(push("big/1", b"y" * 700))
    sizes = []
    while (view := acceptor.data(0.0)) is not None:
        sizes.append(len(view) - 2)
        acceptor.mark_sent(len(view), 0.0)
    # The router's PUT has a timestamp of 26 bytes, ours has none; apart from that the cuts fall on the same bytes.
    assert sizes[:2] == [size for size, _ in result["note"][:2]]
    assert sizes[2] == result["note"][2][0] - 26


# A hand-made router and real clients: our opener in the clients' place


def with_fake_router(case: str) -> tuple[Unicast, list[bytes], list[bytes]]:
    """Connect our opener, with the id of the recorded client, to the recorded router. Return it with both sent byte streams."""
    found = [row for row in rows("probe_fake_router")[1:] if row["case"] == case]
    theirs = [bytes.fromhex(row["hex"]) for row in found if row["dir"] == "node->fake-router"]
    router = [bytes.fromhex(row["hex"]) for row in found if row["dir"] == "fake-router->node"]
    syn = messages(theirs[0])[0]
    settings = Settings(syn.zid.value, WhatAmI.from_wire(syn.whatami), batch_size=65480)
    opener = Unicast(Opener(settings, now=0.0), stream=True, sink=Collector())
    opener.start(0.0)
    said: list[bytes] = []
    for batch in [b"", *router]:
        opener.receive(framed(batch) if batch else b"", 0.0)
        while (view := opener.data(0.0)) is not None:
            said.append(bytes(view)[2:])
            opener.mark_sent(len(view), 0.0)
    return opener, said, theirs


def test_our_fragments_are_those_of_the_real_client() -> None:
    """Case "small batch 512": byte for byte."""
    opener, _, theirs = with_fake_router("small batch 512")
    opener.send(push("a/b", b"q" * 1300))
    said = []
    while (view := opener.data(0.0)) is not None:
        said.append(bytes(view)[2:])
        opener.mark_sent(len(view), 0.0)
    assert said == theirs[2:5]


def test_features_that_were_not_requested_stay_off() -> None:
    opener, _, _ = with_fake_router("unrequested ext in InitAck (compression, lowlatency)")
    assert opener.session.qos
    assert not opener.session.compression
    assert not opener.session.low_latency
