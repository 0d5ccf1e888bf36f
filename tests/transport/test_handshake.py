# SPDX-License-Identifier: Apache-2.0
"""INIT and OPEN: every event in every state, every option with and without support of the peer, and verification of cookies."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.ends import ACCEPTOR, LINK, OPENER, SECRET, Pair
from tests.vectors import rows
from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason, ConfigError, RemoteError
from zenlake.transport import cookie as cookies
from zenlake.transport.handshake import (
    TABLE,
    Acceptor,
    Deferred,
    Handshake,
    HandshakeEvent,
    HandshakeState,
    Opener,
    initial_sn,
)
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Closed
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.qos_link import QosLink
from zenlake.wire.transport import KeepAlive

NOW = 100.0
OWN = Settings(OPENER)
THEIRS = Settings(ACCEPTOR, WhatAmI.ROUTER)


def accept(settings: Settings = THEIRS, **values: object) -> Acceptor:
    return Acceptor(settings, **{"secret": SECRET, "context": LINK, "now": NOW, **values})


def answer(acceptor: Handshake, batch: bytes, now: float = NOW) -> object:
    """Return the reply of the acceptor to this batch."""
    acceptor.receive(batch, now)
    (said,) = acceptor.to_send
    acceptor.to_send.clear()
    (message,) = messages(said)
    return message


def init_syn(settings: Settings = OWN, **values: object) -> bytes:
    opener = Opener(settings, now=NOW, **values)
    opener.start(NOW)
    return opener.to_send[0]


def in_state(state: HandshakeState) -> Handshake:
    """Return a handshake that has reached this state by itself."""
    if state is HandshakeState.LISTENING:
        return accept()
    acceptor, opener = accept(), Opener(OWN, now=NOW)
    if state is HandshakeState.IDLE:
        return opener
    opener.start(NOW)
    if state is HandshakeState.INIT_SENT:
        return opener
    opener.receive(answer(acceptor, opener.to_send.pop()).encode(), NOW)
    if state is HandshakeState.OPEN_SENT:
        opener.to_send.clear()
        return opener
    opener.receive(answer(acceptor, opener.to_send.pop()).encode(), NOW)
    if state is HandshakeState.CLOSED:
        opener = Opener(OWN, now=NOW)
        opener.start(NOW)
        opener.receive(Close(reason=0).encode(), NOW)
    assert opener.state is state
    opener.to_send.clear()
    return opener


def batch_of(event: HandshakeEvent) -> bytes:
    """Return bytes that cause this event and are valid where the table allows them."""
    acceptor = accept()
    ack = answer(acceptor, init_syn())
    match event:
        case HandshakeEvent.INIT_SYN:
            return init_syn()
        case HandshakeEvent.INIT_ACK:
            return ack.encode()
        case HandshakeEvent.OPEN_SYN:
            return Open(lease=10, seconds=True, initial_sn=7, cookie=ack.cookie.value).encode()
        case HandshakeEvent.OPEN_ACK:
            return Open(ack=True, lease=10, seconds=True, initial_sn=7).encode()
        case HandshakeEvent.CLOSE:
            return Close(reason=4).encode()
        case HandshakeEvent.OTHER:
            return KeepAlive().encode()
    raise AssertionError(event)


RECEIVED = [event for event in HandshakeEvent if event not in (HandshakeEvent.START, HandshakeEvent.TIMEOUT)]
BEFORE_OPEN = [
    state for state in HandshakeState if state not in (HandshakeState.OPEN, HandshakeState.CLOSED, HandshakeState.IDLE)
]


@pytest.mark.parametrize(("state", "event"), [*itertools.product(BEFORE_OPEN, RECEIVED)])
def test_each_event_in_each_state(state: HandshakeState, event: HandshakeEvent) -> None:
    handshake = in_state(state)
    handshake.to_send.clear()
    handshake.receive(batch_of(event), NOW)
    if (state, event) in TABLE:
        assert handshake.state is TABLE[state, event][1]
    else:
        assert handshake.state is HandshakeState.CLOSED
        assert messages(handshake.to_send[-1]) == [Close(reason=CloseReason.INVALID)]
        assert isinstance(handshake.error, RemoteError)


def test_every_state_but_the_last_two_is_left_by_timeout_and_no_row_leads_out_of_them() -> None:
    assert {state for state, event in TABLE if event is HandshakeEvent.TIMEOUT} == {*BEFORE_OPEN, HandshakeState.IDLE}
    assert not [state for state, _ in TABLE if state in (HandshakeState.OPEN, HandshakeState.CLOSED)]
    for action, _ in TABLE.values():
        assert hasattr(Opener, action) or hasattr(Acceptor, action)


@pytest.mark.parametrize("state", [*BEFORE_OPEN, HandshakeState.IDLE])
def test_a_handshake_that_does_not_end_in_time_is_given_up(state: HandshakeState) -> None:
    handshake = in_state(state)
    handshake.to_send.clear()
    assert handshake.next_timeout() == NOW + 10
    handshake.on_timeout(NOW + 9.999)
    assert handshake.state is state
    handshake.on_timeout(NOW + 10)
    assert handshake.state is HandshakeState.CLOSED
    assert messages(handshake.to_send[-1]) == [Close(reason=CloseReason.GENERIC)]


@given(st.lists(st.one_of(st.sampled_from(RECEIVED).map(batch_of), st.binary(max_size=80)), max_size=6), st.booleans())
def test_no_sequence_of_batches_breaks_it(batches: list[bytes], opening: bool) -> None:
    """For any input the handshake stays in its states, sends CLOSE at most once, and sends nothing after it."""
    handshake: Handshake = in_state(HandshakeState.INIT_SENT) if opening else accept()
    for batch in batches:
        if handshake.state in (HandshakeState.OPEN, HandshakeState.CLOSED):
            break
        handshake.receive(batch, NOW)
    said = [message for batch in handshake.to_send for message in messages(batch)]
    assert [type(message) for message in said].count(Close) == (handshake.error is not None) - handshake.refused_by_peer
    assert not any(isinstance(message, Close) for message in said[:-1])


def test_several_messages_in_a_batch_are_no_handshake() -> None:
    acceptor = accept()
    assert answer(acceptor, init_syn() + KeepAlive().encode()) == Close(reason=CloseReason.INVALID)


# Negotiated parameters


@pytest.mark.parametrize("ours", [8, 16, 32])
@pytest.mark.parametrize("theirs", [8, 16, 32])
def test_the_smaller_resolution_wins(ours: int, theirs: int) -> None:
    pair = Pair(resolution=ours, acceptor={"resolution": theirs}).open()
    code = {8: 0, 16: 1, 32: 2}[min(ours, theirs)]
    for end in (pair.opener, pair.acceptor):
        assert end.session.resolution == 0x08 | code
        assert all(side.initial_sn <= {0: 0x7F, 1: 0x3FFF, 2: 0x0FFFFFFF}[code] for side in end.session.sides)


def test_sixty_four_bits_are_negotiated_down() -> None:
    syn = Init(whatami=2, zid=OPENER, sized=True, resolution=0x0F, batch_size=2048, patch=1)
    ack = answer(accept(), syn.encode())
    assert (ack.resolution, ack.batch_size) == (0x0A, 2048)


@pytest.mark.parametrize("option", ["qos", "low_latency", "compression"])
@pytest.mark.parametrize(("ours", "theirs"), [*itertools.product([False, True], repeat=2)])
def test_an_option_holds_if_both_want_it(option: str, ours: bool, theirs: bool) -> None:
    base = {"qos": False}
    pair = Pair(**{**base, option: ours}, acceptor={**base, option: theirs}).open()
    assert getattr(pair.opener.session, option) == getattr(pair.acceptor.session, option) == (ours and theirs)


@pytest.mark.parametrize(("ours", "theirs"), [*itertools.product([0, 1], repeat=2)])
def test_the_lower_patch_wins(ours: int, theirs: int) -> None:
    pair = Pair(patch=ours, acceptor={"patch": theirs}).open()
    assert pair.opener.session.patch == pair.acceptor.session.patch == min(ours, theirs)


def test_the_smallest_batch_wins_and_the_links_counts() -> None:
    pair = Pair(batch_size=1000, acceptor={"batch_size": 300}).open()
    assert pair.opener.session.batch_size == pair.acceptor.session.batch_size == 300
    assert answer(accept(batch_size=400), init_syn()).batch_size == 400


@pytest.mark.parametrize("size", [0, 16, 63])
def test_a_tiny_batch_size_is_refused(size: int) -> None:
    refusal = answer(accept(), Init(zid=OPENER, whatami=2, sized=True, resolution=0x0A, batch_size=size).encode())
    assert isinstance(refusal, Close)
    assert refusal.reason == CloseReason.INVALID


def test_shared_memory_is_never_answered() -> None:
    syn = Init(whatami=2, zid=OPENER, shm=b"\x07", patch=1)
    assert answer(accept(), syn.encode()).shm.value is None
    assert messages(init_syn())[0].shm.value is None


WHOLE, SOME, LESS = QosLink(), QosLink(True, (1, 3), False), QosLink(True, (2, 3), False)


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [(None, None, 0), (None, SOME, 0x180E), (SOME, SOME, 0x180E), (SOME, LESS, LESS.to_wire()), (LESS, SOME, None),
     (QosLink(True, None, True), SOME, None), (SOME, None, 0)],
)  # fmt: skip
def test_a_links_restriction_is_the_openers_if_ours_includes_it(
    ours: QosLink | None, theirs: QosLink | None, agreed: int | None
) -> None:
    said = answer(accept(qos_link=ours), init_syn(qos_link=theirs))
    if agreed is None:
        assert said == Close(reason=CloseReason.GENERIC)
    else:
        assert (said.qos, said.qos_link) == (theirs is None, agreed)


@pytest.mark.parametrize(
    ("values", "named"),
    [({"zid": b""}, "zid"), ({"zid": b"\x01\x00"}, "zid"), ({"resolution": 64}, "resolution"),
     ({"batch_size": 10}, "batch_size"),
     ({"low_latency": True}, "low_latency"), ({"lease": 0}, "lease"), ({"keep_alive": 1}, "keep_alive"),
     ({"queue_size": 0}, "queue_size"), ({"patch": 2}, "patch"), ({"password": b"x"}, "user")],
)  # fmt: skip
def test_settings_that_contradict_themselves_are_refused(values: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^invalid {named}="):
        Settings(**{"zid": OPENER, **values})


# Admission


def test_initial_numbers_are_those_of_the_wheel() -> None:
    """Recomputed from the recorded handshake (vector handshake_client)."""
    recorded = [messages(bytes.fromhex(row["hex"]))[0] for row in rows("handshake_client")[1:5]]
    syn, ack, open_syn, open_ack = recorded
    assert open_syn.initial_sn == initial_sn(syn.zid.value, ack.zid.value, 0x0FFFFFFF)
    assert open_ack.initial_sn == initial_sn(ack.zid.value, syn.zid.value, 0x0FFFFFFF)


def test_our_init_syn_is_the_wheels() -> None:
    """Byte for byte, but for the id and the batch size, which 1.10.2 derives from the MSS."""
    recorded = bytes.fromhex(rows("handshake_client")[1]["hex"])
    zid = messages(recorded)[0].zid.value
    settings = Settings(zid, batch_size=65480)
    assert init_syn(settings) == recorded


PASSWORDS = {"users": {"alice": b"wonderland"}}


@pytest.mark.parametrize(
    ("credentials", "welcome"),
    [({"user": "alice", "password": b"wonderland"}, True), ({"user": "alice", "password": b"guess"}, False),
     ({"user": "alice"}, False), ({"user": "bob", "password": b""}, False), ({}, False)],
)  # fmt: skip
def test_passwords(credentials: dict[str, object], welcome: bool) -> None:
    pair = Pair(acceptor=PASSWORDS, **credentials)
    pair.opener.start(pair.now)
    pair.pump()
    assert pair.opener.is_open == pair.acceptor.is_open == welcome
    if not welcome:
        assert [end.reason for end in pair.ends()] == [CloseReason.GENERIC] * 2


def test_credentials_are_ignored_where_no_authentication_is_required() -> None:
    assert Pair(user="alice", password=b"wonderland", acceptor={}).open().acceptor.is_open


def test_our_own_id_is_refused_by_both_ends() -> None:
    assert answer(accept(dataclasses.replace(THEIRS, zid=OPENER)), init_syn()).zid.value == OPENER
    pair = Pair(acceptor={"zid": OPENER})
    pair.opener.start(pair.now)
    pair.pump()
    assert [end.reason for end in pair.ends()] == [CloseReason.CONNECTION_TO_SELF] * 2


@pytest.mark.parametrize("reason", [CloseReason.MAX_LINKS, CloseReason.MAX_SESSIONS])
def test_a_refused_node_receives_the_reason(reason: CloseReason) -> None:
    asked = []

    def admit(zid: bytes) -> CloseReason:
        asked.append(zid)
        return reason

    acceptor = accept(admit=admit)
    ack = answer(acceptor, init_syn())
    assert asked == []  # nothing is decided before the cookie returns
    said = answer(acceptor, Open(lease=1000, initial_sn=0, cookie=ack.cookie.value).encode())
    assert (said, asked) == (Close(reason=reason), [OPENER])


def test_a_deferred_session_opens_at_the_next_attempt() -> None:
    """Bytes after the OpenSyn wait, because the state of the handshake stays LISTENING."""
    decisions: list[BaseException | None] = [Deferred(), Deferred(), None]

    def admit(zid: bytes) -> None:
        decision = decisions.pop(0)
        if decision is not None:
            raise decision

    acceptor = accept(admit=admit)
    ack = answer(acceptor, init_syn())
    acceptor.receive(Open(lease=1000, initial_sn=0, cookie=ack.cookie.value).encode(), NOW)
    acceptor.retry(NOW)
    assert (acceptor.state, acceptor.to_send) == (HandshakeState.LISTENING, [])
    acceptor.retry(NOW)
    assert acceptor.state is HandshakeState.OPEN
    assert len(acceptor.to_send) == 1
    acceptor.retry(NOW)
    assert len(acceptor.to_send) == 1


class TestCookies:
    def opening(self, cookie: bytes) -> bytes:
        return Open(lease=1000, initial_sn=0, cookie=cookie).encode()

    def cookie(self) -> bytes:
        value: bytes = answer(accept(), init_syn()).cookie.value
        return value

    def test_it_carries_the_whole_state(self) -> None:
        """Let another acceptor with the same secret and no state complete the handshake."""
        other = accept(now=NOW + 1)
        assert answer(other, self.opening(self.cookie()), NOW + 1).ack
        assert other.session.sides[0].zid == OPENER

    @given(st.data())
    def test_a_changed_bit_is_found(self, data: st.DataObject) -> None:
        cookie = bytearray(self.cookie())
        cookie[data.draw(st.integers(0, len(cookie) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        assert answer(accept(), self.opening(bytes(cookie))) == Close(reason=CloseReason.INVALID)

    @given(st.binary(max_size=100))
    def test_a_forged_one_is_refused(self, forged: bytes) -> None:
        assert answer(accept(), self.opening(forged)) == Close(reason=CloseReason.INVALID)

    def test_another_link_cannot_use_it(self) -> None:
        thief = accept(context=b"tcp/thief tcp/two")
        assert answer(thief, self.opening(self.cookie())) == Close(reason=CloseReason.INVALID)

    def test_it_grows_stale(self) -> None:
        cookie = self.cookie()
        for later, welcome in ((9.9, True), (10.1, False), (-1.0, False)):
            said = answer(accept(now=NOW + later), self.opening(cookie), NOW + later)
            assert isinstance(said, Open) == welcome

    def test_the_context_cannot_be_moved_into_the_body(self) -> None:
        agreed = Init(whatami=2, zid=OPENER)
        one = cookies.make_cookie(SECRET, b"ab", agreed, NOW)
        with pytest.raises(RemoteError, match="not issued for this link"):
            cookies.open_cookie(SECRET, b"a", one[:16] + b"b" + one[16:], NOW, 10)

    def test_nonces_differ_from_time_to_time(self) -> None:
        agreed = Init(whatami=2, zid=OPENER)
        assert cookies.nonce(SECRET, agreed, 1.0) != cookies.nonce(SECRET, agreed, 2.0)


def test_a_refusal_reaches_both_ends() -> None:
    pair = Pair()
    pair.opener.start(pair.now)
    (syn,) = pair.batches(pair.opener)
    pair.acceptor.receive(syn[:3] + b"\x08" + syn[4:], pair.now)  # version 8
    pair.pump()
    mine, theirs = pair.ends()
    assert mine == Closed(CloseReason.INVALID, True, mine.error)
    assert (theirs.reason, theirs.by_peer) == (CloseReason.INVALID, False)
    assert "version 8" in str(theirs.error)


def test_both_inits_contain_the_region_name() -> None:
    syn = init_syn(dataclasses.replace(OWN, region_name="é"))
    assert syn.endswith(bytes.fromhex("48 02 c3a9"))
    ack = answer(accept(dataclasses.replace(THEIRS, region_name="core")), syn)
    assert isinstance(ack, Init)
    assert ack.region.text == "core"  # its own name, not that of the opener


@pytest.mark.parametrize("name", ["", "a" * 33])
def test_a_region_name_has_1_to_32_bytes(name: str) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 32 bytes"):
        Settings(OPENER, region_name=name)


@pytest.mark.parametrize(
    ("own", "peer", "bound", "accepted"),
    [
        (WhatAmI.CLIENT, WhatAmI.ROUTER, 0, False), (WhatAmI.CLIENT, WhatAmI.PEER, 0, False),
        (WhatAmI.PEER, WhatAmI.ROUTER, 0, False), (WhatAmI.PEER, WhatAmI.PEER, 0, True),
        (WhatAmI.ROUTER, WhatAmI.ROUTER, 0, True), (WhatAmI.ROUTER, WhatAmI.PEER, 0, True),
        (WhatAmI.PEER, WhatAmI.PEER, 1, True), (WhatAmI.PEER, WhatAmI.CLIENT, 1, True),
        (WhatAmI.CLIENT, WhatAmI.ROUTER, 1, True), (WhatAmI.ROUTER, WhatAmI.ROUTER, 1, True),
        (WhatAmI.PEER, WhatAmI.PEER, 2, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("opening", [True, False])
def test_a_bound_against_the_modes_is_refused(
    own: WhatAmI, peer: WhatAmI, bound: int, accepted: bool, opening: bool
) -> None:
    """RemoteBound of OPEN (regions, since 1.9), on either end."""
    ours, theirs = Settings(OPENER, own), Settings(ACCEPTOR, peer)
    opener = Opener(ours if opening else theirs, now=NOW)
    acceptor = accept(theirs if opening else ours)
    opener.start(NOW)
    opener.receive(answer(acceptor, opener.to_send.pop()).encode(), NOW)
    [syn] = messages(opener.to_send.pop())
    if opening:
        ack = answer(acceptor, syn.encode())
        ack.remote_bound = bound
        opener.receive(ack.encode(), NOW)
        said, end = opener.to_send, opener
    else:
        syn.remote_bound = bound
        acceptor.receive(syn.encode(), NOW)
        said, end = acceptor.to_send, acceptor
    assert (end.state is HandshakeState.OPEN) is accepted
    if not accepted:
        assert said == [bytes.fromhex("03 00")]  # CLOSE GENERIC of the link


def test_an_acceptor_of_another_version_is_refused() -> None:
    """1.10.2 does not check the version of an InitAck."""
    opener = Opener(OWN, now=NOW)
    opener.start(NOW)
    ack = answer(accept(), opener.to_send.pop())
    assert isinstance(ack, Init)
    ack.version = 8
    opener.receive(ack.encode(), NOW)
    assert opener.to_send == [Close(reason=CloseReason.INVALID).encode()]
    assert "protocol version 8 is not supported; expected 9" in str(opener.error)
