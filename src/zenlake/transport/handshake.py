# SPDX-License-Identifier: Apache-2.0
"""Session handshake: INIT and OPEN with their acknowledgements, and the parameters that they negotiate.

The opener proposes parameters (InitSyn). The acceptor replies with the parameters that both ends support, and a cookie
(InitAck). The opener returns the cookie with its lease and initial sequence number (OpenSyn). The acceptor replies with its
own (OpenAck). The acceptor stores no state in between: the cookie holds the negotiated parameters (see `cookie`). LISTENING is
therefore one state, and InitSyn leads from it to itself.

    opener                                acceptor
    IDLE
      │  start: InitSyn ──────────────▶   LISTENING ─┐ InitSyn: InitAck with cookie
    INIT_SENT ◀────────────────────────       │    ◀─┘
      │  InitAck: OpenSyn with cookie ▶       │
    OPEN_SENT ◀────────────────────────       │  OpenSyn: OpenAck
      │  OpenAck                              │
    OPEN                                    OPEN

`TABLE` is the complete state machine. Any other event is a protocol violation and ends with CLOSE INVALID. Each message is
sent alone in its batch, uncompressed. Low latency and compression apply from the batch after OpenAck. This module uses no
clock, socket or randomness.
"""

from collections.abc import Callable
from enum import Enum, auto

from zenlake.errors import CloseReason, DecodeError, ProtocolError, RemoteError
from zenlake.session.lanes import mask_of
from zenlake.session.state import SessionState
from zenlake.transport import cookie as cookies
from zenlake.transport.references import SharedNegotiation
from zenlake.transport.settings import MIN_BATCH, Settings
from zenlake.wire.auth_multilink import Auth, Credentials
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.qos_link import QosLink

__all__ = [
    "Acceptor",
    "Deferred",
    "HandshakeEvent",
    "Handshake",
    "Opener",
    "HandshakeState",
    "SOUTH",
    "TABLE",
    "close_reason",
    "initial_sn",
]

VERSION = 9
NORTH, SOUTH = 0, 1  # RemoteBound of OPEN: where the sender places the other end. SOUTH: the sender is its gateway

Admit = Callable[[bytes], CloseReason | None]
"""Return None if a node with this id is accepted, or the reason of the refusal. Raise `Deferred` to decide later."""


class Deferred(Exception):
    """The session with this peer cannot be decided yet. `Handshake.retry` asks again."""


class HandshakeState(Enum):
    IDLE = auto()
    INIT_SENT = auto()
    OPEN_SENT = auto()
    LISTENING = auto()
    OPEN = auto()
    CLOSED = auto()


class HandshakeEvent(Enum):
    START = auto()
    INIT_SYN = auto()
    INIT_ACK = auto()
    OPEN_SYN = auto()
    OPEN_ACK = auto()
    CLOSE = auto()
    TIMEOUT = auto()
    OTHER = auto()
    """Event for an unexpected message, several messages in one batch, or undecodable bytes."""


S, E = HandshakeState, HandshakeEvent

TABLE: dict[tuple[HandshakeState, HandshakeEvent], tuple[str, HandshakeState]] = {
    # state          event           action            next state
    (S.IDLE,         E.START):      ("send_init_syn",  S.INIT_SENT),
    (S.IDLE,         E.TIMEOUT):    ("give_up",        S.CLOSED),
    (S.INIT_SENT,    E.INIT_ACK):   ("send_open_syn",  S.OPEN_SENT),
    (S.INIT_SENT,    E.CLOSE):      ("record_refusal",   S.CLOSED),
    (S.INIT_SENT,    E.TIMEOUT):    ("give_up",        S.CLOSED),
    (S.OPEN_SENT,    E.OPEN_ACK):   ("finish",         S.OPEN),
    (S.OPEN_SENT,    E.CLOSE):      ("record_refusal",   S.CLOSED),
    (S.OPEN_SENT,    E.TIMEOUT):    ("give_up",        S.CLOSED),
    (S.LISTENING,    E.INIT_SYN):   ("send_init_ack",  S.LISTENING),
    (S.LISTENING,    E.OPEN_SYN):   ("send_open_ack",  S.OPEN),
    (S.LISTENING,    E.CLOSE):      ("record_refusal",   S.CLOSED),
    (S.LISTENING,    E.TIMEOUT):    ("give_up",        S.CLOSED),
}  # fmt: skip


def initial_sn(own: bytes, peer: bytes, mask: int) -> int:
    """Return the initial sequence number, derived as in 1.10.2: equal for all links of a session (companion session.md)."""
    import hashlib  # Performance: OpenSSL loads slowly, so it is imported at the first connection

    return int.from_bytes(hashlib.shake_128(own + peer).digest(4), "little") & mask


def close_reason(code: int) -> CloseReason:
    """Return the reason byte of a CLOSE. Unknown values become GENERIC."""
    return CloseReason(code) if code <= max(CloseReason) else CloseReason.GENERIC


class Handshake:
    """Common part of both roles. `to_send` collects encoded messages; each is sent in a batch of its own."""

    def __init__(
        self, settings: Settings, state: HandshakeState, batch_size: int, deadline: float, admit: Admit | None,
        shared: SharedNegotiation | None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.shared = shared
        """Negotiation of shared memory, or None if this end declines it."""
        self.state = state
        self.session = SessionState()
        self.to_send: list[bytes] = []
        self.error: ProtocolError | None = None
        self.reason: CloseReason | None = None
        self.refused_by_peer = False
        self.user: str | None = None
        """User name of the authenticated peer."""
        self.restriction: QosLink | None = None
        """Priorities and reliability that the link is restricted to, or None."""
        self._batch_size = min(settings.batch_size, batch_size)
        self._deadline = deadline
        self._admit = admit or (lambda zid: None)
        self._deferred: Open | None = None

    def receive(self, batch: bytes, now: float) -> None:
        """Process one batch from the peer."""
        try:
            found = messages(batch)
        except DecodeError as error:
            self._fail(error)
            return
        message = found[0] if len(found) == 1 else None
        self._step(_event(message), message, now)

    def retry(self, now: float) -> None:
        """Process a deferred OpenSyn again, if there is one."""
        message, self._deferred = self._deferred, None
        if message is not None and self.state is HandshakeState.LISTENING:
            self._step(HandshakeEvent.OPEN_SYN, message, now)

    def next_timeout(self) -> float | None:
        return self._deadline if self.state not in (HandshakeState.OPEN, HandshakeState.CLOSED) else None

    def on_timeout(self, now: float) -> None:
        if now >= self._deadline and self.state not in (HandshakeState.OPEN, HandshakeState.CLOSED):
            self._step(HandshakeEvent.TIMEOUT, None, now)

    def _step(self, event: HandshakeEvent, message: object, now: float) -> None:
        action, then = TABLE.get((self.state, event), ("refuse", HandshakeState.CLOSED))
        try:
            getattr(self, action)(message, now)
            self.state = then
        except Deferred:
            self._deferred = message  # type: ignore[assignment]  # only an acceptor defers, and only an OpenSyn
        except (DecodeError, ProtocolError) as error:
            self._fail(error)

    def _fail(self, error: DecodeError | ProtocolError) -> None:
        """End the handshake with a CLOSE that has this reason."""
        if isinstance(error, DecodeError):
            error = RemoteError(str(error), error.reason)
        self.error = error
        self.reason = error.reason
        self.state = HandshakeState.CLOSED
        self._send(Close(reason=error.reason))

    def _send(self, message: Init | Open | Close) -> None:
        self.to_send.append(message.encode())

    def refuse(self, message: object, now: float) -> None:
        name = "non-handshake batch" if message is None else type(message).__name__.upper()
        raise RemoteError(f"unexpected {name} in handshake state {self.state.name}", CloseReason.INVALID)

    def record_refusal(self, message: Close, now: float) -> None:
        self.reason = close_reason(message.reason)
        self.refused_by_peer = True
        self.error = RemoteError("the peer refused the session", self.reason)

    def give_up(self, message: None, now: float) -> None:
        raise RemoteError(f"handshake timeout in state {self.state.name}", CloseReason.GENERIC)

    def _open_message(self, peer: bytes, **values: object) -> Open:
        lease = self.settings.lease_ms
        seconds = lease % 1000 == 0
        return Open(
            seconds=seconds,
            lease=lease // 1000 if seconds else lease,
            initial_sn=initial_sn(self.settings.zid, peer, mask_of(self.session.resolution)),
            **values,
        )

    def _check_identity(self, zid: bytes) -> None:
        if zid == self.settings.zid:
            raise RemoteError("the peer has the ZenohID of this node", CloseReason.CONNECTION_TO_SELF)
        reason = self._admit(zid)
        if reason is not None:
            raise RemoteError(f"further session with {zid[::-1].hex()} refused", reason)

    def _check_bound(self, message: Open, whatami: int) -> None:
        """Refuse a session in which the peer places this node where its mode does not allow it (since 1.9)."""
        bound = message.remote_bound
        if bound not in (-1, NORTH, SOUTH):
            raise RemoteError(
                f"OPEN.remote_bound {bound} is invalid; expected {NORTH} (north) or {SOUTH} (south)",
                CloseReason.GENERIC,
            )
        own = self.settings.whatami
        if bound == NORTH and own.to_wire() > whatami:
            raise RemoteError(
                f"the peer is a gateway whose filters do not match this {own.name.lower()}; "
                "change `gateway/south` of the peer",
                CloseReason.GENERIC,
            )


class Opener(Handshake):
    """Handshake of the connecting end. `qos_link` is the restriction from the metadata of the endpoint."""

    def __init__(
        self,
        settings: Settings,
        *,
        now: float,
        batch_size: int = 65535,
        qos_link: QosLink | None = None,
        admit: Admit | None = None,
        shared: SharedNegotiation | None = None,
    ) -> None:
        super().__init__(settings, HandshakeState.IDLE, batch_size, now + settings.open_timeout, admit, shared)
        self._qos_link = self.restriction = qos_link

    def start(self, now: float) -> None:
        self._step(HandshakeEvent.START, None, now)

    def send_init_syn(self, message: None, now: float) -> None:
        own = self.settings
        restricted = own.qos and self._qos_link is not None
        syn = Init(
            whatami=own.whatami.to_wire(),
            zid=own.zid,
            sized=own.resolution_code != 0x0A or self._batch_size != 65535,
            resolution=own.resolution_code,
            batch_size=self._batch_size,
            qos=own.qos and not restricted,
            qos_link=self._qos_link.to_wire() if restricted and self._qos_link is not None else 0,
            shm=None if self.shared is None else self.shared.init_syn(),
            auth=Auth(usrpwd=True).encode() if own.user is not None else None,
            low_latency=own.low_latency,
            compression=own.compression,
            patch=own.patch,
            region=_encode(own.region_name),
        )
        self.session.init(0, syn)
        self._send(syn)

    def send_open_syn(self, ack: Init, now: float) -> None:
        own = self.settings
        code = own.resolution_code
        _check_version(ack)
        _check_batch_size(ack)
        if ack.resolution & 0x03 > code & 0x03 or ack.resolution & 0x0C > code & 0x0C:
            raise RemoteError(
                f"InitAck.resolution {ack.resolution:#04x} exceeds the proposed {code:#04x}", CloseReason.INVALID
            )
        if ack.patch > own.patch:
            raise RemoteError(f"InitAck.patch {ack.patch} exceeds the proposed {own.patch}", CloseReason.GENERIC)
        zid = ack.zid.value
        self._check_identity(zid)
        auth = None
        if ack.auth.value is not None and own.user is not None:
            asked = Auth.decode(ack.auth.value)
            if asked.nonce is not None:
                credentials = Credentials.of(own.user.encode(), own.password, asked.nonce)
                auth = Auth(credentials=credentials).encode()
        self.session.init(1, ack)
        shm = None if self.shared is None else self.shared.open_syn(ack.shm.value)
        syn = self._open_message(zid, cookie=ack.cookie.value, shm=shm, auth=auth)
        self.session.on_open(0, syn)
        self._send(syn)

    def finish(self, ack: Open, now: float) -> None:
        self._check_bound(ack, self.session.acceptor.whatami)
        if self.shared is not None:
            self.shared.finish(ack.shm.value)
        self.session.on_open(1, ack)


class Acceptor(Handshake):
    """Handshake of the accepting end. `secret` signs cookies, `context` binds them to this link."""

    def __init__(
        self,
        settings: Settings,
        *,
        secret: bytes,
        context: bytes,
        now: float,
        batch_size: int = 65535,
        qos_link: QosLink | None = None,
        admit: Admit | None = None,
        shared: SharedNegotiation | None = None,
    ) -> None:
        super().__init__(settings, HandshakeState.LISTENING, batch_size, now + settings.accept_timeout, admit, shared)
        self._secret = secret
        self._context = context
        self._qos_link = qos_link

    def send_init_ack(self, syn: Init, now: float) -> None:
        own = self.settings
        _check_version(syn)
        _check_batch_size(syn)
        asked = None if syn.auth.value is None else Auth.decode(syn.auth.value)
        if own.users is not None and (asked is None or not asked.usrpwd):
            raise RemoteError("user and password are required", CloseReason.GENERIC)
        link = _settle_link(self._qos_link, syn) if own.qos else None
        code = own.resolution_code
        resolution = min(code & 0x03, syn.resolution & 0x03) | min(code & 0x0C, syn.resolution & 0x0C)
        batch_size = min(self._batch_size, syn.batch_size)
        agreed = Init(
            whatami=syn.whatami,
            zid=syn.zid.value,
            sized=resolution != 0x0A or batch_size != 65535,
            resolution=resolution,
            batch_size=batch_size,
            qos=own.qos and bool(syn.qos),
            qos_link=link.to_wire() if link is not None else 0,
            low_latency=own.low_latency and bool(syn.low_latency),
            compression=own.compression and bool(syn.compression),
            patch=min(own.patch, syn.patch),
            region=syn.region.value,
        )
        shm = None if self.shared is None else self.shared.init_ack(syn.shm.value)
        # The cookie holds the segment of the opener. It is empty if the proposal is declined.
        agreed.shm.set(syn.shm.value if shm is not None else None if syn.shm.size < 0 else b"")
        ack = self._as_ack(agreed)
        ack.shm.set(shm)
        ack.cookie.set(cookies.make_cookie(self._secret, self._context, agreed, now))
        if own.users is not None:
            ack.auth.set(Auth(nonce=cookies.nonce(self._secret, agreed, now)).encode())
        self._send(ack)

    def send_open_ack(self, syn: Open, now: float) -> None:
        own = self.settings
        cookie = syn.cookie.value
        agreed = cookies.open_cookie(self._secret, self._context, cookie, now, own.accept_timeout)
        auth = None
        if own.users is not None:
            self._check_password(syn, cookies.nonce(self._secret, agreed, cookies.issue_time(cookie)))
            auth = Auth(usrpwd=True).encode()
        zid = agreed.zid.value
        self._check_bound(syn, agreed.whatami)
        self._check_identity(zid)
        self.restriction = QosLink.from_wire(agreed.qos_link) if agreed.qos_link else None
        self.session.init(0, agreed)
        self.session.init(1, self._as_ack(agreed))
        self.session.on_open(0, syn)
        shm = None
        if self.shared is not None and agreed.shm.size > 0:
            shm = self.shared.open_ack(agreed.shm.value, syn.shm.value)
        ack = self._open_message(zid, ack=True, shm=shm, auth=auth)
        self.session.on_open(1, ack)
        self._send(ack)

    def _as_ack(self, agreed: Init) -> Init:
        own = self.settings
        return Init(
            ack=True,
            whatami=own.whatami.to_wire(),
            zid=own.zid,
            sized=agreed.resolution != 0x0A or agreed.batch_size != 65535,
            resolution=agreed.resolution,
            batch_size=agreed.batch_size,
            cookie=b"",
            qos=agreed.qos,
            qos_link=agreed.qos_link,
            low_latency=agreed.low_latency,
            compression=agreed.compression,
            patch=agreed.patch,
            region=_encode(own.region_name),
        )

    def _check_password(self, syn: Open, nonce: int) -> None:
        given = None if syn.auth.value is None else Auth.decode(syn.auth.value).credentials
        password = None
        if given is not None and self.settings.users is not None:
            password = self.settings.users.get(given.user.decode(errors="replace"))
        # Safety: an unknown user takes as long as a wrong password.
        known = given is not None and given.prove(password or b"", nonce) and password is not None
        if not known:
            raise RemoteError("unknown user or wrong password", CloseReason.GENERIC)
        assert given is not None
        self.user = given.user.decode(errors="replace")


def _encode(name: str | None) -> bytes | None:
    return None if name is None else name.encode()


def _check_version(init: Init) -> None:
    if init.version != VERSION:
        raise RemoteError(f"protocol version {init.version} is not supported; expected {VERSION}", CloseReason.INVALID)


def _check_batch_size(init: Init) -> None:
    """Refuse batches so small that a message would become thousands of them."""
    if init.batch_size < MIN_BATCH:
        raise RemoteError(
            f"batch size {init.batch_size} is too small; expected at least {MIN_BATCH}", CloseReason.INVALID
        )


def _settle_link(own: QosLink | None, syn: Init) -> QosLink | None:
    """Return the restriction of the link: the one that the opener requests, if ours includes it. None means plain QoS."""
    theirs = QosLink.from_wire(syn.qos_link) if syn.qos_link else None
    if own is None or theirs is None:
        return theirs
    range_fits = own.priorities is None or theirs.priorities is None or _includes(own.priorities, theirs.priorities)
    kind_fits = own.reliable is None or theirs.reliable is None or own.reliable == theirs.reliable
    if not (range_fits and kind_fits):
        raise RemoteError(f"the peer requests a link for {theirs}, but this link is for {own}", CloseReason.GENERIC)
    return theirs


def _includes(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _event(message: object) -> HandshakeEvent:
    match message:
        case Init(ack=ack):
            return HandshakeEvent.INIT_ACK if ack else HandshakeEvent.INIT_SYN
        case Open(ack=ack):
            return HandshakeEvent.OPEN_ACK if ack else HandshakeEvent.OPEN_SYN
        case Close():
            return HandshakeEvent.CLOSE
    return HandshakeEvent.OTHER
