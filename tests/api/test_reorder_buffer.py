# SPDX-License-Identifier: Apache-2.0
"""Samples of a numbered source, repeated or late: each is delivered once and in order."""

from hypothesis import given
from hypothesis import strategies as st

from zenlake.api.reorder_buffer import ReorderBuffer
from zenlake.api.reply import Sample
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
from zenlake.core.keyexpr import KeyExpr

ID = EntityGlobalId(ZenohId.from_wire(b"\1"), 3)
KEY = KeyExpr("a")


def numbered(number):
    return Sample(KEY, source_info=SourceInfo(ID, number))


def ordering(recovers=True, depth=None):
    got, lost = [], []
    made = ReorderBuffer(
        lambda sample: got.append(sample.source_info.source_sn), lambda miss: lost.append(miss.nb), recovers, depth
    )
    return made, got, lost


@given(st.lists(st.integers(0, 30), max_size=60), st.booleans())
def test_each_once_and_in_order(numbers, recovers):
    made, got, lost = ordering(recovers)
    made.begin_query()
    half = len(numbers) // 2
    for number in numbers[:half]:
        made.sample(numbered(number))
    assert got == []
    made.end_query()
    assert got == sorted(set(numbers[:half]))
    for number in numbers[half:]:
        made.sample(numbered(number))
    made.begin_query(ID)
    made.end_query(ID)
    assert got == sorted(set(got)), "in order, each once"
    if got:
        assert sum(lost) == got[-1] - got[0] + 1 - len(got), "every gap is reported"


def test_a_gap_waits_for_its_recovery():
    made, got, lost = ordering()
    for number in (0, 1, 4):
        made.sample(numbered(number))
    assert got == [0, 1]
    assert made.missing_range(ID, 4) == "2..4"
    assert made.missing_range(ID, 5) is None, "one question at a time"
    for number in (2, 3, 4):
        made.sample(numbered(number))
    made.end_query(ID)
    assert (got, lost) == ([0, 1, 2, 3, 4], [])
    assert made.missing_range(ID, 4) is None


def test_unrecoverable_samples_are_reported():
    made, got, lost = ordering()
    for number in (0, 3):
        made.sample(numbered(number))
    assert made.missing_range(ID, 3) == "1..3"
    made.end_query(ID)
    assert (got, lost) == ([0, 3], [2])


def test_without_recovery_a_gap_is_reported_immediately():
    made, got, lost = ordering(recovers=False)
    for number in (5, 8, 7, 9):
        made.sample(numbered(number))
    assert (got, lost) == ([5, 8, 9], [2])


def test_stamped_samples_are_ordered_by_time():
    times = []
    made = ReorderBuffer(lambda sample: times.append(sample.timestamp.ntp64), lambda miss: None, False, None)
    made.begin_query()
    for time in (30, 10, 20, 10):
        made.sample(Sample(KEY, timestamp=Timestamp.from_wire(time, b"\1")))
    made.end_query()
    made.sample(Sample(KEY, timestamp=Timestamp.from_wire(15, b"\1")))
    made.sample(Sample(KEY, timestamp=Timestamp.from_wire(40, b"\1")))
    assert times == [10, 20, 30, 40]
