# SPDX-License-Identifier: Apache-2.0
"""The cookie of an InitAck: the state that the acceptor would otherwise have to store until the OpenSyn.

The cookie holds the negotiated INIT, its time, and a tag over both and the two addresses of the link. Only this node can
compute the tag. A flood of InitSyn messages therefore costs no memory. Forged, modified or expired cookies are refused, and
so are cookies of another link.
"""

import struct

from zenlake.errors import CloseReason, RemoteError
from zenlake.wire.cursor import Cursor
from zenlake.wire.handshake import Init

__all__ = ["make_cookie", "open_cookie", "nonce"]

TAG = 16
TIME = struct.Struct("<d")


def _tag(secret: bytes, context: bytes, body: bytes) -> bytes:
    import hashlib
    import hmac

    return hmac.digest(secret, len(context).to_bytes(4, "little") + context + body, hashlib.sha256)[:TAG]


def make_cookie(secret: bytes, context: bytes, agreed: Init, now: float) -> bytes:
    """Return a cookie that is bound to `context`, the addresses of the link."""
    body: bytes = TIME.pack(now) + agreed.encode()
    return _tag(secret, context, body) + body


def open_cookie(secret: bytes, context: bytes, cookie: bytes, now: float, lifetime: float) -> Init:
    """Verify a cookie and return the INIT that it holds."""
    import hmac

    tag, body = cookie[:TAG], cookie[TAG:]
    if not hmac.compare_digest(tag, _tag(secret, context, body)):
        raise RemoteError("the cookie was not issued for this link", CloseReason.INVALID)
    if not 0 <= now - TIME.unpack_from(body)[0] <= lifetime:
        raise RemoteError("the cookie has expired", CloseReason.INVALID)
    agreed: Init = Init().decode(Cursor(body[TIME.size :]))
    return agreed


def nonce(secret: bytes, agreed: Init, now: float) -> int:
    """Return an unpredictable number that can be recomputed from the content of the cookie, so it is not stored."""
    import hashlib
    import hmac

    digest = hmac.digest(secret, b"nonce" + TIME.pack(now) + agreed.encode(), hashlib.sha256)
    return int.from_bytes(digest[:8], "little")


def issue_time(cookie: bytes) -> float:
    """Return the time at which a verified cookie was issued."""
    when: float = TIME.unpack_from(cookie, TAG)[0]
    return when
