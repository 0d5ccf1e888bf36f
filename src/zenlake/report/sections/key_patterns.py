# SPDX-License-Identifier: Apache-2.0
"""Grouping of keys that differ in one chunk: `robot/1/imu`, `robot/2/imu` and `robot/3/imu` become `robot/*/imu`."""

from collections.abc import Iterable, Mapping

__all__ = ["group_keys"]

MIN_MEMBERS = 3  # keys that a group replaces


def group_keys(keys: Iterable[str], max_groups: int) -> Mapping[str, str]:
    """Return the group of each key.

    Chunks become `*`, the most repetitive one first, until there are at most `max_groups` groups.
    """
    groups = {key: tuple(key.split("/")) for key in keys}
    while len(set(groups.values())) > max_groups:
        patterns = set(groups.values())
        candidates: dict[tuple[int, tuple[str, ...]], set[tuple[str, ...]]] = {}
        for pattern in patterns:
            for i in range(len(pattern)):
                candidates.setdefault((i, (*pattern[:i], "*", *pattern[i + 1 :])), set()).add(pattern)
        savings: dict[int, int] = {}
        for (i, _), members in candidates.items():
            if len(members) >= MIN_MEMBERS:
                savings[i] = savings.get(i, 0) + len(members) - 1
        if not savings:
            break
        best = max(savings, key=lambda i: (savings[i], -i))
        replacements = {
            member: pattern
            for (i, pattern), members in candidates.items()
            if i == best and len(members) >= MIN_MEMBERS
            for member in members
        }
        groups = {key: replacements.get(pattern, pattern) for key, pattern in groups.items()}
    return {key: "/".join(pattern) for key, pattern in groups.items()}
