# SPDX-License-Identifier: Apache-2.0
"""The diagram in the docstring of a message equals its reader: the same rows, in order, under the same conditions."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings

from tests.wire.strategies import EVERY
from zenlake.wire.cursor import Cursor

ROW = re.compile(r"^    ([|~%].{15}[|~%])(?:   (.*))?$")
TEST = re.compile(r"([A-Z]+)(==|!=)([01]+)")


@dataclass
class Row:
    name: str
    condition: list[list[tuple[str, str, str]]]  # any of these, each a list of tests that all hold
    flags: dict[str, tuple[int, int]]  # the flags that its byte defines: lowest bit, width


def bit_fields(cells):
    """`|Z|MOD| INTEREST|`: two columns a bit, so a cell's place and width give its bits."""
    found, column = {}, 0
    for cell in cells.strip("|").split("|"):
        width = (len(cell) + 1) // 2
        if cell.isupper() and cell.isalpha() and cell != "X" and width < 5:
            found[cell] = (8 - column // 2 - width, width)
        column += len(cell) + 1
    return found


def diagram(kind):
    """The rows of a docstring, the header first."""
    rows = []
    for line in kind.__doc__.splitlines():
        match = ROW.match(line)
        if not match:
            continue
        cells, note = match[1], match[2] or ""
        flags = bit_fields(cells) if not rows or cells.count("|") == 9 else {}
        name = cells.strip("|~% ")
        if cells.count("|") == 9:  # a byte of flags: its name opens the note
            name = note.partition(",")[0]
        flags.update({letter: (int(bit), 1) for bit, letter in re.findall(r"\bbit (\d) ([A-Z])\b", note)})
        condition = [TEST.findall(part) for part in re.findall(r"\bif ([^:;]*==[^:;]*|[^:;]*!=[^:;]*)", note)]
        rows.append(Row("header" if not rows else name, condition, flags))
    return rows


def expected(rows, wire, steps):
    """Return the rows of this message, given the flags that were read before each of them."""
    first_byte = {name.partition(".")[0]: wire[start] for _, name, _, start, stop in reversed(steps) if start < stop}
    names, flags = [], {}
    for row in rows:
        holds = [all((flags.get(f, "") == bits) == (how == "==") for f, how, bits in test) for test in row.condition]
        if holds and not any(holds):
            continue
        names.append(row.name)
        for flag, (low, width) in row.flags.items():
            flags[flag] = format(first_byte.get(row.name, 0) >> low & (1 << width) - 1, f"0{width}b")
    return names


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_the_reader_visits_the_rows_of_the_diagram(kind):
    rows = diagram(kind)
    combinations = set()

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(EVERY[kind])
    def visit(message):
        wire = message.encode()
        c = Cursor(wire, 0, None, kind.NAME).trace()
        kind().decode(c)
        steps = [step for step in c.steps if step[0] in (kind.NAME, "message")]
        if kind.NAME == "REPLY":  # its own body is the last row of interest
            steps = steps[: next(i for i, step in enumerate(steps) if step[1] == "body") + 1]
        visited = [step[1].partition(".")[0] for step in steps]
        visited = [name for i, name in enumerate(visited) if i == 0 or name != visited[i - 1]]
        assert visited == expected(rows, wire, steps)
        combinations.add(tuple(visited))

    conditional = sum(1 for row in rows if row.condition)
    for _ in range(4):
        visit()
        if len(combinations) > conditional:
            return
    pytest.fail("too few combinations of flags were seen to prove anything")


def test_the_header_of_a_diagram_names_the_id_and_the_flags():
    for kind in EVERY:
        cells, note = next(ROW.match(line).groups() for line in kind.__doc__.splitlines() if ROW.match(line))
        assert f"{kind.ID:#04x}" == "0x" + note[2:4].lower(), kind
        assert bit_fields(cells)["Z"] == (7, 1), kind


def test_reads_follow_the_diagrams():
    """The parser of this test returns the rows, conditions and flags of one diagram."""
    from zenlake.wire.declare import Interest

    rows = diagram(Interest)
    assert [row.name for row in rows] == ["header", "id", "options", "key_scope", "key_suffix", "exts"]
    assert rows[0].flags == {"Z": (7, 1), "MOD": (5, 2)}
    assert rows[2].flags == dict(zip("AMNRTQSK", ((bit, 1) for bit in range(7, -1, -1)), strict=True))
    assert rows[4].condition == [[("MOD", "!=", "00"), ("R", "==", "1"), ("N", "==", "1")]]
