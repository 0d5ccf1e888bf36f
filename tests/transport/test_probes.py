# SPDX-License-Identifier: Apache-2.0
"""The hand-made bytes that were sent to a real router and to real clients, sent to ours: it reacts as they did.

Where ours differs on purpose, it says more: a breach inside an open session is answered with a CLOSE before the
connection ends (a real router just ends it).
"""

from typing import Any

import pytest

from tests.transport.ends import ACCEPTOR, LINK, SECRET, Collector, framed, push
from tests.vectors import rows
from zenlake.errors import CloseReason
from zenlake.transport.config import Settings
from zenlake.transport.handshake import Acceptor, Opener
from zenlake.transport.unicast import Closed, Unicast
from zenlake.values import WhatAmI
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.reader import messages

HANDSHAKE = (
    "version_8", "version_10", "no_ext_no_size", "unknown_optional_ext", "unknown_mandatory_ext", "patch_2",
    "res_64_batch_2048", "res_8_batch_300", "whatami_3", "bad_cookie", "frame_before_open", "open_sn_out_of_range",
    "compress_and_lowlatency_offer",
)  # fmt: skip
LANES = (
    "put_plain_sn0", "put_map_receiver_scope0", "sn_out_of_range_2p28", "sn_wrap_to_0", "sn_gap_and_replay",
    "no_ts_ext_prio_ext_M0", "prio_ext_M1_prio1", "noqos_prio_frame", "noqos_negotiated_but_prio_frame",
    "push_ext_qos_M1", "push_unknown_optional_ext", "push_unknown_mandatory_ext", "put_ts_max_9byte_vle",
    "put_ts_max_10byte_leb128", "put_ts_2p63", "nonminimal_vle_len", "unknown_network_id_0x18",
    "unknown_transport_id_0x08", "transport_oam", "network_oam_unknown_id", "two_frames_one_batch",
    "keepalive_with_ext", "close_session_flag", "batch_larger_than_negotiated", "batch_body_equal_to_negotiated",
    "batch_body_negotiated_minus_2", "client_sends_declare_final",
)  # fmt: skip
FRAGMENTS = (
    "fragments_first_marker", "fragments_no_first_marker_patch1", "fragments_no_marker_patch0", "fragment_drop_marker",
    "fragment_gap", "fragment_interleaved_with_frame",
)  # fmt: skip


def recorded(case: str) -> tuple[list[bytes], list[bytes], dict[str, Any]]:
    """What was sent to the router, what it sent, and what became of it."""
    found = [row for row in rows("probe")[1:] if row.get("scenario") == f"probe_{case}"]
    (result,) = [row["result"] for row in rows("probe")[1:] if row.get("result", {}).get("case") == case]
    sent = [bytes.fromhex(row["hex"]) for row in found if row["dir"] == "raw->router"]
    return sent, [bytes.fromhex(row["hex"]) for row in found if row["dir"] == "router->raw"], result


def replay(case: str) -> tuple[Unicast, Collector, list[bytes]]:
    """Our acceptor gets what the router got (with its own cookie back where the router got its own)."""
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
            acceptor.sent(len(view), 0.0)
    return acceptor, heard, said


@pytest.mark.parametrize("case", HANDSHAKE)
def test_handshakes_go_as_with_the_real_router(case: str) -> None:
    _, answers, _ = recorded(case)
    _, _, said = replay(case)
    for theirs, ours in zip(
        [m for b in answers for m in messages(b)], [m for b in said for m in messages(b)], strict=True
    ):
        assert type(ours) is type(theirs)
        if isinstance(ours, Init):
            for field in ("ack", "resolution", "batch_size", "qos", "qos_link", "low_latency", "compression", "patch"):
                assert getattr(ours, field) == getattr(theirs, field), field
        elif isinstance(ours, Open):
            assert (ours.ack, ours.lease_ms) == (theirs.ack, theirs.lease_ms)
        else:
            assert ours == theirs


@pytest.mark.parametrize("case", LANES + FRAGMENTS)
def test_lanes_and_fragments_go_as_with_the_real_router(case: str) -> None:
    _, _, result = recorded(case)
    acceptor, heard, said = replay(case)
    assert acceptor.is_closed == ("closed by router" in result["tail"])
    assert [key for key, _ in heard.got] == [sample[0] for sample in result["samples"]]
    for (_, payload), sample in zip(heard.got, result["samples"], strict=True):
        assert len(payload) == sample[1] if isinstance(sample[1], int) else payload.hex() == sample[1]
    if acceptor.is_closed:
        (end,) = [event for event in acceptor.events() if isinstance(event, Closed)]
        if not end.by_peer:
            assert messages(said[-1]) == [Close(reason=CloseReason.INVALID)]


def test_a_lease_expires_as_with_the_real_router() -> None:
    acceptor, _, _ = replay("lease_500ms_expiry")
    assert acceptor.is_open
    assert acceptor.next_timeout() == 0.5
    acceptor.on_timeout(0.499)
    assert acceptor.is_open
    acceptor.on_timeout(0.5)
    (end,) = [event for event in acceptor.events() if isinstance(event, Closed)]
    assert end.reason == CloseReason.EXPIRED


def test_messages_are_cut_as_the_real_router_cuts_them() -> None:
    """Case router_fragments_to_300_batch: two fragments that fill the batch, and the rest."""
    _, _, result = recorded("router_fragments_to_300_batch")
    acceptor, _, _ = replay("router_fragments_to_300_batch")
    acceptor.send(push("big/1", b"y" * 700))
    sizes = []
    while (view := acceptor.data(0.0)) is not None:
        sizes.append(len(view) - 2)
        acceptor.sent(len(view), 0.0)
    # The router's PUT has a timestamp of 26 bytes, ours has none; apart from that the cuts fall on the same bytes.
    assert sizes[:2] == [size for size, _ in result["note"][:2]]
    assert sizes[2] == result["note"][2][0] - 26


# A hand-made router and real clients: our opener in the clients' place


CASES = sorted({row["case"] for row in rows("probe_fake_router") if "case" in row})


def with_fake_router(case: str) -> tuple[Unicast, list[bytes], list[bytes]]:
    """Our opener, with the recorded client's id, meets the recorded router; also what it and the client said."""
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
            opener.sent(len(view), 0.0)
    return opener, said, theirs


@pytest.mark.parametrize("case", CASES)
def test_our_opener_says_what_the_real_one_said(case: str) -> None:
    opener, said, theirs = with_fake_router(case)
    handshake = [batch for batch in theirs if batch[0] & 0x1F in (1, 2)]
    if not opener.is_open:
        handshake.append(theirs[-1])  # its CLOSE, with its reason
    assert said == handshake


def test_the_cases_cover_what_may_go_wrong() -> None:
    closed = {case for case in CASES if not with_fake_router(case)[0].is_open}
    assert closed == {"patch 2", "res bigger than asked"}


def test_our_fragments_are_those_of_the_real_client() -> None:
    """Case "small batch 512": byte for byte."""
    opener, _, theirs = with_fake_router("small batch 512")
    opener.send(push("a/b", b"q" * 1300))
    said = []
    while (view := opener.data(0.0)) is not None:
        said.append(bytes(view)[2:])
        opener.sent(len(view), 0.0)
    assert said == theirs[2:5]


def test_what_was_not_asked_for_stays_off() -> None:
    opener, _, _ = with_fake_router("unrequested ext in InitAck (compression, lowlatency)")
    assert opener.session.qos
    assert not opener.session.compression
    assert not opener.session.low_latency
