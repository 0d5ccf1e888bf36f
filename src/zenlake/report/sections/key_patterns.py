# SPDX-License-Identifier: Apache-2.0
"""Grouping of keys that differ in one chunk: `robot/1/imu`, `robot/2/imu` and `robot/3/imu` become `robot/*/imu`."""

from collections.abc import Iterable, Mapping

__all__ = ["group_keys"]

MIN_ALIKE = 3  # keys that a group replaces


def group_keys(keys: Iterable[str], most: int) -> Mapping[str, str]:
    """Return the group of each key. Chunks become `*`, the most repetitive one first, until there are at most `most` groups."""
    groups = {key: tuple(key.split("/")) for key in keys}
    while len(set(groups.values())) > most:
        patterns = set(groups.values())
        alike: dict[tuple[int, tuple[str, ...]], set[tuple[str, ...]]] = {}
        for pattern in patterns:
            for i in range(len(pattern)):
                alike.setdefault((i, (*pattern[:i], "*", *pattern[i + 1 :])), set()).add(pattern)
        saved: dict[int, int] = {}
        for (i, _), members in alike.items():
            if len(members) >= MIN_ALIKE:
                saved[i] = saved.get(i, 0) + len(members) - 1
        if not saved:
            break
        best = max(saved, key=lambda i: (saved[i], -i))
        replaced = {
            member: pattern
            for (i, pattern), members in alike.items()
            if i == best and len(members) >= MIN_ALIKE
            for member in members
        }
        groups = {key: replaced.get(pattern, pattern) for key, pattern in groups.items()}
    return {key: "/".join(pattern) for key, pattern in groups.items()}
