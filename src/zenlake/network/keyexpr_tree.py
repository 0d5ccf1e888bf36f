# SPDX-License-Identifier: Apache-2.0
"""Key expressions in a tree of chunks, to find those that intersect a key without comparing all of them.

A key without wildcards follows one branch for each chunk, and the few wildcard branches. So its cost does not grow with the
number of expressions. An expression with wildcards follows every branch that it matches.

A branch is visited once, with the set of positions in the key that its path leads to, as bits of an integer. So a walk
costs at most one operation on such a set for each branch. The tree has a branch only where two expressions share a
chunk, and at most MAX_DEPTH levels: memory is proportional to the bytes of the expressions. Below the last level,
expressions are compared one by one.

A walk is a generator. It yields after a bounded number of steps, and the tree may change before it continues.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Generic, TypeVar

from zenlake.core.keyexpr import intersects

__all__ = ["KeyExprTree", "Walk", "finish"]

MAX_DEPTH = 16  # chunks of an expression that have a branch
MAX_STEPS = 64  # children in one slice of a walk
MAX_SIZE = 4096  # bytes of two expressions whose comparison is not a slice of its own
MAX_MASKS = 1024  # sets of positions that a walk keeps

Value = TypeVar("Value")
Result = TypeVar("Result")
Walk = Generator[None, None, Result]
"""A computation in slices."""


def finish(walk: Walk[Result]) -> Result:
    """Run a computation to its end and return the result."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            result: Result = end.value
            return result


class TreeLeaf(Generic[Value]):
    """One expression, in place of a branch that would lead only to it."""

    __slots__ = ("chunk", "key", "value")

    def __init__(self, chunk: bytes, key: bytes, value: Value) -> None:
        self.chunk = chunk
        self.key = key
        self.value = value


class TreeNode(Generic[Value]):
    """The children after one chunk."""

    __slots__ = ("branches", "chunk", "depth", "patterns", "value")

    def __init__(self, chunk: bytes, depth: int) -> None:
        self.chunk = chunk
        self.depth = depth
        self.value: Value | None = None
        self.branches: dict[bytes, TreeNode[Value] | TreeLeaf[Value]] = {}
        """Children by chunk. At MAX_DEPTH only leaves, by the whole rest of their expressions."""
        self.patterns: dict[bytes, TreeNode[Value] | TreeLeaf[Value]] = {}
        """Children whose chunk contains `$*`."""

    def add(self, name: bytes, child: "TreeNode[Value] | TreeLeaf[Value]") -> None:
        self.branches[name] = child
        if b"$" in name:
            self.patterns[name] = child

    def drop(self, name: bytes) -> None:
        del self.branches[name]
        self.patterns.pop(name, None)


class KeyExprTree(Generic[Value]):
    """A mapping from key expressions (canonical UTF-8) to values, with lookup by intersection."""

    def __init__(self) -> None:
        self._all: dict[bytes, Value] = {}
        self._root: TreeNode[Value] = TreeNode(b"", 0)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all)

    def get(self, key: bytes) -> Value | None:
        return self._all.get(key)

    def values(self) -> list[Value]:
        return list(self._all.values())

    def insert(self, key: bytes, value: Value) -> None:
        self.remove(key)
        self._all[key] = value
        branch, names = self._root, key.split(b"/", MAX_DEPTH)
        for name in names:
            child = branch.branches.get(name)
            if child is None:
                branch.add(name, _leaf(branch, name, key, value))
                return
            if isinstance(child, TreeLeaf):
                child = self._split(branch, name, child)
            branch = child
        branch.value = value

    @staticmethod
    def _split(branch: TreeNode[Value], name: bytes, leaf: TreeLeaf[Value]) -> TreeNode[Value]:
        """Replace a leaf by a branch that leads to it."""
        lower: TreeNode[Value] = TreeNode(name, branch.depth + 1)
        branch.add(name, lower)
        names = leaf.key.split(b"/", MAX_DEPTH)
        if len(names) == lower.depth:
            lower.value = leaf.value
        else:
            name = names[lower.depth]
            lower.add(name, _leaf(lower, name, leaf.key, leaf.value))
        return lower

    def remove(self, key: bytes) -> None:
        """Remove an expression, and the branches that led only to it."""
        if self._all.pop(key, None) is None:
            return
        path = [self._root]
        names = key.split(b"/", MAX_DEPTH)
        for name in names:
            child = path[-1].branches[name]
            if isinstance(child, TreeLeaf):
                path[-1].drop(name)
                break
            path.append(child)
        else:
            path[-1].value = None
        while len(path) > 1:
            branch = path.pop()
            if branch.branches or branch.value is not None:
                return
            path[-1].drop(branch.chunk)

    def find(self, key: bytes) -> list[Value]:
        """Return the values of all expressions that intersect a key."""
        return finish(self.walk(key)) if self._all else []

    def walk(self, key: bytes) -> Walk[list[Value]]:
        """Find the values as `find` does, in slices."""
        result: list[Value] = []
        matcher = Matcher(key)
        end = matcher.end
        steps = 0
        start = matcher.skip(1)
        stack = [(iter(matcher.children(self._root, start)), start)]
        while stack:
            children, positions = stack[-1]
            child = next(children, None)
            if child is None:
                stack.pop()
                continue
            steps += 1
            if steps % MAX_STEPS == 0:
                yield
            after = matcher.step(positions, child.chunk)
            if not after:
                continue
            if isinstance(child, TreeLeaf):
                if len(key) + len(child.key) > MAX_SIZE:
                    yield
                if intersects(child.key, key):
                    result.append(child.value)
                continue
            if child.value is not None and after & end:
                result.append(child.value)
            if child.branches:
                stack.append((iter(matcher.children(child, after)), after))
        return result


def _leaf(branch: TreeNode[Value], name: bytes, key: bytes, value: Value) -> TreeLeaf[Value]:
    """Create a leaf for a position in a branch. Below the last level, all leaves are compared."""
    return TreeLeaf(b"**" if branch.depth == MAX_DEPTH else name, key, value)


class Matcher:
    """A key, and its positions that chunks of other expressions lead to. Bit n is the position before chunk n."""

    __slots__ = (
        "_literals",
        "chunks",
        "consumable",
        "double_stars",
        "end",
        "is_plain",
        "masks",
        "patterns_at",
        "single_stars",
    )

    def __init__(self, key: bytes) -> None:
        self.chunks = key.split(b"/")
        self.end = 1 << len(self.chunks)
        self.is_plain = b"*" not in key
        self.masks: dict[bytes, int] = {}
        self._literals: dict[bytes, list[int]] | None = None
        self.consumable = self.end - 1
        """Positions that `**` consumes: those of chunks without `@`."""
        self.double_stars = self.single_stars = 0
        """Positions of `**`; positions of `*`, which all but verbatim chunks consume."""
        self.patterns_at: list[int] = []
        """Positions of the chunks with `$*`."""
        if not self.is_plain or b"@" in key:
            self._sort()

    def _sort(self) -> None:
        verbatims, double_stars, stars = [], [], []
        for position, chunk in enumerate(self.chunks):
            if chunk[0] == 64:  # "@"
                verbatims.append(position)
            elif chunk == b"**":
                double_stars.append(position)
            elif chunk == b"*":
                stars.append(position)
            elif b"*" in chunk:
                self.patterns_at.append(position)
        self.consumable &= ~_bits(verbatims)
        self.double_stars, self.single_stars = _bits(double_stars), _bits(stars)

    @property
    def literals(self) -> dict[bytes, list[int]]:
        """Positions of each chunk without wildcards or with `@`."""
        if self._literals is None:
            self._literals = {}
            for position, chunk in enumerate(self.chunks):
                if b"*" not in chunk or chunk[0] == 64:
                    self._literals.setdefault(chunk, []).append(position)
        return self._literals

    def skip(self, positions: int) -> int:
        """Add the positions behind those with `**`, which can match nothing."""
        return positions | (positions & self.double_stars) << 1

    def children(self, branch: TreeNode[Value], positions: int) -> Iterable[TreeNode[Value] | TreeLeaf[Value]]:
        """Return the children that these positions may lead to."""
        branches = branch.branches
        if branch.depth == MAX_DEPTH:
            return list(branches.values())
        if self.double_stars or self.patterns_at or positions & self.single_stars:
            return list(branches.values())
        if not positions & positions - 1:
            chunk = b"" if positions == self.end else self.chunks[positions.bit_length() - 1]
            result = [branches[chunk]] if chunk in branches else []
        elif len(self.literals) > len(branches):
            return list(branches.values())
        else:
            result = [branches[name] for name in self.literals if name in branches]
        if b"*" in branches:
            result.append(branches[b"*"])
        if b"**" in branches:
            result.append(branches[b"**"])
        if branch.patterns:
            result += branch.patterns.values()
        return result

    def step(self, positions: int, chunk: bytes) -> int:
        """Return the positions behind a chunk of another expression, from those before it."""
        if chunk == b"**":
            start = positions & self.consumable
            consumed = (
                self.consumable & ~(self.consumable + start)
            ) | start  # the carry runs up to the next verbatim chunk
            return positions | consumed | consumed << 1
        if self.is_plain and not positions & positions - 1:
            if positions == self.end:
                return 0
            own_chunk = self.chunks[positions.bit_length() - 1]
            return positions << 1 if own_chunk == chunk or (b"*" in chunk and intersects(chunk, own_chunk)) else 0
        if chunk[0] == 64:
            return self.skip((positions & self.mask(chunk)) << 1)
        if chunk == b"*":
            mask = self.consumable & ~self.double_stars
        else:
            mask = self.compare(chunk) if b"$" in chunk else self.mask(chunk)
        return self.skip((positions & mask) << 1 | positions & self.double_stars)

    def mask(self, chunk: bytes) -> int:
        """Return the positions that a chunk without wildcards consumes."""
        mask = self.masks.get(chunk)
        if mask is None:
            if len(self.masks) >= MAX_MASKS:
                self.masks.clear()
            mask = _bits(self.literals.get(chunk, ()))
            if chunk[0] != 64:
                mask |= self.single_stars | _bits([at for at in self.patterns_at if intersects(self.chunks[at], chunk)])
            self.masks[chunk] = mask
        return mask

    def compare(self, pattern: bytes) -> int:
        """Return the positions that a chunk with `$*` consumes."""
        result = [at for at in self.patterns_at if intersects(self.chunks[at], pattern)]
        for chunk, positions in self.literals.items():
            if chunk[0] != 64 and intersects(chunk, pattern):
                result += positions
        return self.single_stars | _bits(result)


def _bits(positions: Iterable[int]) -> int:
    """Return a set of positions as bits."""
    if not isinstance(positions, list) or not positions:
        return 0
    if len(positions) < 8:
        bits = 0
        for position in positions:
            bits |= 1 << position
        return bits
    data = bytearray(max(positions) // 8 + 1)
    for position in positions:
        data[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(data, "little")
