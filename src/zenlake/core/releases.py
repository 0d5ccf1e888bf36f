# SPDX-License-Identifier: Apache-2.0
"""The likely release of Zenoh of a node, inferred from its handshake, and the known incompatibilities of that release.

The handshake contains no release. With default settings, a node proposes shared memory since 1.6. It answers a proposal with a
number up to 1.9, and with bytes since 1.10. Region names and bounds exist since 1.9. A node whose handshake shows nothing, such as
most acceptors, has no likely release.
"""

__all__ = ["REGION", "SHM", "SHM_BYTES", "SHM_NUMBER", "SIZED", "known_incompatibilities", "likely_release"]

# Traits of the handshake of one side.
SIZED = 0x01  # INIT has its sizes, as that of every eclipse-zenoh
SHM = 0x02  # INIT proposes or accepts shared memory
SHM_NUMBER = 0x04  # OPEN answers the proposal with a number
SHM_BYTES = 0x08  # OPEN answers the proposal with bytes
REGION = 0x10  # INIT has a region name, or OPEN a bound

INCOMPATIBILITIES = (  # the last minor release that has it, and the effect
    (9, "no timestamp stack"),
    (9, "no shared memory with 1.10"),
    (8, "no regions"),
    (7, "a router does not send a client its own liveliness tokens"),
    (6, "a router withdraws an aggregate declaration with its exact key: matching may be wrong"),
)


def likely_release(traits: int, is_opener: bool) -> str | None:
    """Return the likely release of a side, such as `1.6 to 1.9`, or None if its handshake does not show it."""
    first, last = 0, None
    if traits & SHM:
        first = 6
    if traits & SHM_NUMBER:
        last = 9
    if traits & REGION:
        first, last = 9, 9 if traits & SHM_NUMBER else None
    if traits & SHM_BYTES:
        first, last = 10, None
    if first == last:
        return f"1.{first}"
    if last is not None:
        return f"1.{first} to 1.{last}"
    if first:
        return f"1.{first} or newer"
    return "1.0 to 1.5, or newer without shared memory" if is_opener and traits & SIZED else None


def known_incompatibilities(release: str | None) -> list[str]:
    """Return the known incompatibilities that every release of a range has with the newest."""
    if release is None or "newer" in release:
        return []
    newest = int(release.rpartition(".")[2])
    return [effect for last, effect in INCOMPATIBILITIES if newest <= last]
