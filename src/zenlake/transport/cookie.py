# SPDX-License-Identifier: Apache-2.0
"""The cookie of an InitAck: all that the acceptor would otherwise have to remember until the OpenSyn.

It holds the INIT that was agreed on, when that was, and a tag that only we can compute over both and the link's two
addresses. So a flood of InitSyn costs no memory, and a cookie that was forged, changed, used on another link or too
late is refused.
"""

import struct

from zenlake.errors import CloseReason, RemoteError
from zenlake.wire.cursor import Cursor
from zenlake.wire.handshake import Init

__all__ = ["bake", "open_cookie", "nonce"]

TAG = 16
TIME = struct.Struct("<d")


def _tag(secret: bytes, context: bytes, body: bytes) -> bytes:
    import hashlib
    import hmac

    return hmac.digest(secret, len(context).to_bytes(4, "little") + context + body, hashlib.sha256)[:TAG]


def bake(secret: bytes, context: bytes, agreed: Init, now: float) -> bytes:
    """`context` is what the cookie is bound to: the link's addresses."""
    body: bytes = TIME.pack(now) + agreed.encode()
    return _tag(secret, context, body) + body


def open_cookie(secret: bytes, context: bytes, cookie: bytes, now: float, lifetime: float) -> Init:
    """The INIT that the cookie holds."""
    import hmac

    tag, body = cookie[:TAG], cookie[TAG:]
    if not hmac.compare_digest(tag, _tag(secret, context, body)):
        raise RemoteError("a cookie that we did not give to this link", CloseReason.INVALID)
    if not 0 <= now - TIME.unpack_from(body)[0] <= lifetime:
        raise RemoteError("a cookie that is too old", CloseReason.INVALID)
    agreed: Init = Init().decode(Cursor(body[TIME.size :]))
    return agreed


def nonce(secret: bytes, agreed: Init, now: float) -> int:
    """A number that nobody can foresee, and that needs no remembering: the cookie carries what it is made of."""
    import hashlib
    import hmac

    digest = hmac.digest(secret, b"nonce" + TIME.pack(now) + agreed.encode(), hashlib.sha256)
    return int.from_bytes(digest[:8], "little")


def issued(cookie: bytes) -> float:
    """When a cookie (already opened) was baked."""
    when: float = TIME.unpack_from(cookie, TAG)[0]
    return when
