# SPDX-License-Identifier: Apache-2.0
"""Key expressions in a tree of chunks: finding those that intersect another without looking at all of them.

A key without wildcards follows one branch for each chunk, besides the few that are wildcards: so its cost does not grow
with the number of expressions. An expression with wildcards follows every branch that it covers. A place in the tree is
visited once for each position in the expression, so none is slow.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from zenlake.keyexpr import intersects

__all__ = ["KeyTree"]

Value = TypeVar("Value")


class Branch(Generic[Value]):
    """What follows one chunk."""

    __slots__ = ("branches", "chunk", "patterns", "value")

    def __init__(self, chunk: bytes) -> None:
        self.chunk = chunk
        self.value: Value | None = None
        self.branches: dict[bytes, Branch[Value]] = {}
        self.patterns: dict[bytes, Branch[Value]] = {}
        """Those of the branches whose chunk has a `$*` in it."""


class KeyTree(Generic[Value]):
    """A mapping from key expressions (canonical UTF-8) to values, which can be asked by intersection."""

    def __init__(self) -> None:
        self._all: dict[bytes, Value] = {}
        self._root: Branch[Value] = Branch(b"")

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all)

    def get(self, key: bytes) -> Value | None:
        return self._all.get(key)

    def values(self) -> list[Value]:
        return list(self._all.values())

    def insert(self, key: bytes, value: Value) -> None:
        self._all[key] = value
        branch = self._root
        for chunk in key.split(b"/"):
            below = branch.branches.get(chunk)
            if below is None:
                below = branch.branches[chunk] = Branch(chunk)
                if b"$" in chunk:
                    branch.patterns[chunk] = below
            branch = below
        branch.value = value

    def remove(self, key: bytes) -> None:
        """Forget it, and the branches that led only there."""
        if self._all.pop(key, None) is None:
            return
        way = [self._root]
        chunks = key.split(b"/")
        for chunk in chunks:
            way.append(way[-1].branches[chunk])
        way[-1].value = None
        for above, chunk in zip(reversed(way[:-1]), reversed(chunks), strict=True):
            below = above.branches[chunk]
            if below.branches or below.value is not None:
                return
            del above.branches[chunk]
            above.patterns.pop(chunk, None)

    def matching(self, key: bytes) -> list[Value]:
        """The values of all expressions that have a key in common with this one."""
        chunks = key.split(b"/")
        if self._all and (b"*" in key or self._root.branches):
            return self._walk(chunks)
        return []

    def _walk(self, chunks: list[bytes]) -> list[Value]:
        end = len(chunks)
        found: dict[int, Value] = {}
        seen: set[tuple[int, int]] = set()
        ahead: list[tuple[Branch[Value], int]] = [(self._root, 0)]
        while ahead:
            branch, at = ahead.pop()
            if (id(branch), at) in seen:
                continue
            seen.add((id(branch), at))
            branches = branch.branches
            if b"**" in branches:  # which may stand for nothing
                ahead.append((branches[b"**"], at))
            if at == end:
                if branch.value is not None:
                    found[id(branch)] = branch.value
                continue
            chunk = chunks[at]
            if chunk[:1] == b"@":
                if chunk in branches:
                    ahead.append((branches[chunk], at + 1))
                continue
            if branch.chunk == b"**":
                ahead.append((branch, at + 1))
            if chunk == b"**":
                ahead.append((branch, at + 1))
                ahead.extend((below, at) for name, below in branches.items() if name[:1] != b"@")
            elif chunk == b"*":
                ahead.extend((below, at + 1) for name, below in branches.items() if name[:1] != b"@" and name != b"**")
            elif b"$" in chunk:
                for name, below in branches.items():
                    if name[:1] != b"@" and name != b"**" and intersects(chunk, name):
                        ahead.append((below, at + 1))
            else:
                if chunk in branches:
                    ahead.append((branches[chunk], at + 1))
                if b"*" in branches:
                    ahead.append((branches[b"*"], at + 1))
                for name, below in branch.patterns.items():
                    if intersects(chunk, name):
                        ahead.append((below, at + 1))
        return list(found.values())
