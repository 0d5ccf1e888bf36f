# SPDX-License-Identifier: Apache-2.0
"""The Auth and MultiLink extensions of INIT and OPEN.

Auth is a chain of extensions inside an extension. Two methods are known. Their content differs in each message:

    | message | user and password (0x2)             | public key (0x1)                     |
    |---------|-------------------------------------|--------------------------------------|
    | InitSyn | `02`: requested                     | `41`: own key                        |
    | InitAck | `22`: a nonce                       | `41`: own key, encrypted nonce       |
    | OpenSyn | `42`: user, HMAC over the password  | `41`: encrypted nonce                |
    | OpenAck | `02`: accepted                      | `01`: accepted                       |

MultiLink is the exchange of the public key without the inner header. This module defines the layout of the bytes and computes
the HMAC. It does not encrypt or decrypt.
"""

from dataclasses import dataclass

from zenlake.errors import DecodeError
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.writer import WireWriter

__all__ = ["Auth", "Credentials", "KeyOffer", "KeyProof", "PublicKey", "password_hmac", "read"]

# Inner header bytes without Z. As everywhere, ENC, M and ID together identify an extension.
PUBKEY = 0x41
PUBKEY_ACK = 0x01
USRPWD = 0x02
USRPWD_NONCE = 0x22
USRPWD_CREDENTIALS = 0x42
EXTS = {0x41: "pubkey", 0x01: "pubkey", 0x02: "usrpwd", 0x22: "usrpwd", 0x42: "usrpwd"}


def password_hmac(password: bytes, nonce: int) -> bytes:
    """Return the HMAC-SHA3-256 of the password under the nonce, as eight little-endian bytes."""
    import hashlib
    import hmac

    return hmac.digest(nonce.to_bytes(8, "little"), password, hashlib.sha3_256)


@dataclass(frozen=True, slots=True)
class Credentials:
    """User name, and a proof of the password."""

    user: bytes
    hmac: bytes

    @classmethod
    def of(cls, user: bytes, password: bytes, nonce: int) -> "Credentials":
        return cls(user, password_hmac(password, nonce))

    def prove(self, password: bytes, nonce: int) -> bool:
        """Return whether the proof matches a password and nonce, in constant time."""
        import hmac

        return hmac.compare_digest(self.hmac, password_hmac(password, nonce))


@dataclass(frozen=True, slots=True)
class Auth:
    """The Auth extension of one message. Unknown methods are skipped, because Auth is not forwarded."""

    pubkey: bytes | None = None
    """A `KeyOffer` in INIT, a `KeyProof` in OpenSyn."""
    pubkey_ack: bool = False
    usrpwd: bool = False
    """Requested (InitSyn) or accepted (OpenAck)."""
    nonce: int | None = None
    credentials: Credentials | None = None

    @classmethod
    def decode(cls, payload: bytes) -> "Auth":
        return read(Cursor(payload, 0, None, "AUTH"))

    def encode(self) -> bytes:
        """Encode, public key first, because its id is lower."""
        w = WireWriter(256, "AUTH")
        if self.pubkey is not None:
            w.ext_blob(PUBKEY, Blob(self.pubkey))
        if self.pubkey_ack:
            w.ext(PUBKEY_ACK)
        if self.usrpwd:
            w.ext(USRPWD)
        if self.nonce is not None:
            w.ext_z64(USRPWD_NONCE, self.nonce)
        if self.credentials is not None:
            inner = WireWriter(256, "AUTH")
            inner.blob("user", Blob(self.credentials.user))
            inner.blob("hmac", Blob(self.credentials.hmac))
            w.ext_blob(USRPWD_CREDENTIALS, Blob(inner.to_bytes()))
        return w.to_bytes()


def read(c: Cursor) -> Auth:
    """Decode the chain from a cursor that ends with it."""
    pubkey = nonce = credentials = None
    pubkey_ack = usrpwd = False
    one = c.span()
    more = c.at < c.end
    while more:
        header = c.ext("exts")
        more = header & 0x80 != 0
        kind = header & 0x7F
        if kind == PUBKEY:
            c.blob("pubkey", one)
            pubkey = one.value
        elif kind == PUBKEY_ACK:
            pubkey_ack = True
        elif kind == USRPWD:
            usrpwd = True
        elif kind == USRPWD_NONCE:
            nonce = c.z64("nonce")
        elif kind == USRPWD_CREDENTIALS:
            outer = c.open("credentials")
            c.blob("user", one)
            user = one.value
            c.blob("hmac", one)
            credentials = Credentials(user, one.value)
            c.close("credentials", outer)
        else:
            c.skip_unknown("exts", header)
    _must_end(c, "AUTH")
    return Auth(pubkey, pubkey_ack, usrpwd, nonce, credentials)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An RSA key: modulus and exponent, each `<u8;z32>` little-endian."""

    n: int
    e: int


@dataclass(frozen=True, slots=True)
class KeyOffer:
    """In INIT: the sender's key, and in the InitAck a nonce encrypted for the receiver."""

    key: PublicKey
    nonce: bytes | None = None

    @classmethod
    def decode(cls, payload: bytes) -> "KeyOffer":
        return read_offer(Cursor(payload, 0, None, "PUBKEY"))

    def encode(self) -> bytes:
        w = WireWriter(256, "PUBKEY")
        for name, number in (("n", self.key.n), ("e", self.key.e)):
            w.blob(name, Blob(number.to_bytes((number.bit_length() + 7) // 8, "little")))
        if self.nonce is not None:
            w.blob("nonce", Blob(self.nonce))
        return w.to_bytes()


@dataclass(frozen=True, slots=True)
class KeyProof:
    """In OpenSyn: the nonce, encrypted for the other side."""

    nonce: bytes

    @classmethod
    def decode(cls, payload: bytes) -> "KeyProof":
        return read_proof(Cursor(payload, 0, None, "PUBKEY"))

    def encode(self) -> bytes:
        w = WireWriter(256, "PUBKEY")
        w.blob("nonce", Blob(self.nonce))
        return w.to_bytes()


def read_offer(c: Cursor) -> KeyOffer:
    one = c.span()
    c.blob("n", one)
    n = int.from_bytes(one.value, "little")
    c.blob("e", one)
    e = int.from_bytes(one.value, "little")
    nonce = None
    if c.at < c.end:
        c.blob("nonce", one)
        nonce = one.value
    _must_end(c, "PUBKEY")
    return KeyOffer(PublicKey(n, e), nonce)


def read_proof(c: Cursor) -> KeyProof:
    one = c.span()
    c.blob("nonce", one)
    _must_end(c, "PUBKEY")
    return KeyProof(one.value)


def _must_end(c: Cursor, message: str) -> None:
    if c.at != c.end:
        raise DecodeError(f"{message}.end", c.at, f"{c.end - c.at} bytes left over")
