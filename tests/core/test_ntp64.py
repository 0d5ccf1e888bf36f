# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.core.ntp64 import MAX_DELTA, NTP64, HybridClock, ns_from_ntp64, ntp64_from_ns
from zenlake.errors import InvalidValue

u64s = st.integers(0, 2**64 - 1)
MS = 2**32 // 1000


class TestNtp64:
    @pytest.mark.parametrize(
        ("seconds", "nanos", "ntp64"),
        [  # asked of 1.10.2
            (0, 0, 0),
            (0, 1, 4),
            (0, 2, 8),
            (0, 999_999_999, 4294967291),
            (1, 500_000_000, 6442450944),
            (1, 2_000_000_000, 12884901888),
            (4294967295, 999_999_999, 18446744073709551611),
        ],
    )
    def test_from_seconds_and_nanoseconds(self, seconds, nanos, ntp64):
        time = NTP64(seconds, nanos)
        assert int(time) == ntp64
        assert str(time) == repr(time) == str(ntp64)
        assert time.as_nanos() == seconds * 10**9 + nanos

    def test_the_epoch_is_1970(self):
        assert NTP64(1, 500_000_000).to_string_rfc3339_lossy() == "1970-01-01T00:00:01.500000000Z"
        assert NTP64(1, 500_000_000).to_datetime() == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)

    def test_its_parts(self):
        time = NTP64(1, 999_999_999)
        assert (time.as_secs(), time.subsec_nanos()) == (1, 999_999_999)
        assert NTP64(1, 500_000_000).as_secs_f64() == 1.5
        assert time.to_datetime().microsecond == 999_999

    @pytest.mark.parametrize(
        ("text", "ntp64"),
        [  # asked of 1.10.2
            ("2026-01-01T00:00:00Z", 7590176156653977600),
            ("2026-01-01T00:00:00.5Z", 7590176158801461248),
            ("2026-01-01T00:00:00.1234567891234Z", 7590176157184220471),
            ("2016-12-31T23:59:60Z", 6370419184190357504),  # a leap second
        ],
    )
    def test_rfc3339(self, text, ntp64):
        assert int(NTP64.parse_rfc3339(text)) == ntp64

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2026-01-01",
            "2026-01-01T00:00:00.5+01:00",
            "2026-01-01t00:00:00z",
            "2026-01-01 00:00:00Z",
            "2026-02-31T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "2200-01-01T00:00:00Z",
            " 2026-01-01T00:00:00Z",
            "٢٠٢٦-01-01T00:00:00Z",
        ],
    )
    def test_odd_instants_are_refused(self, text):
        with pytest.raises(InvalidValue):
            NTP64.parse_rfc3339(text)

    @pytest.mark.parametrize(("seconds", "nanos"), [(-1, 0), (0, -1), (2**32, 0), (2**32 - 1, 10**9)])
    def test_values_out_of_range_are_refused(self, seconds, nanos):
        with pytest.raises(InvalidValue):
            NTP64(seconds, nanos)

    def test_a_datetime_needs_a_zone(self):
        with pytest.raises(InvalidValue, match="tzinfo"):
            NTP64.from_datetime(datetime(2026, 1, 1))

    @given(st.integers(0, 2**32 * 10**9 - 1))
    def test_nanoseconds_round_trip(self, ns):
        assert ns_from_ntp64(ntp64_from_ns(ns)) == ns

    @given(st.datetimes(datetime(1970, 1, 1), datetime(2106, 1, 1), timezones=st.just(UTC)))
    def test_datetimes_and_text_round_trip(self, time):
        ntp64 = NTP64.from_datetime(time)
        assert ntp64.to_datetime() == time
        assert NTP64.parse_rfc3339(ntp64.to_string_rfc3339_lossy()) == ntp64

    @given(u64s, u64s)
    def test_order_is_that_of_the_numbers(self, a, b):
        assert (NTP64.from_wire(a) < NTP64.from_wire(b)) == (a < b)
        assert (NTP64.from_wire(a) >= NTP64.from_wire(b)) == (a >= b)


class TestHybridClock:
    def test_the_clock_s_low_bits_count(self):
        clock = HybridClock()
        assert clock.tick(0x12345) == 0x12340
        assert clock.tick(0x12345) == 0x12341
        assert clock.tick(0x12350) == 0x12350

    def test_times_never_decrease_when_the_clock_does(self):
        clock = HybridClock()
        assert clock.tick(0x5000) == 0x5000
        assert clock.tick(0x1000) == 0x5001

    def test_the_counter_may_overflow_into_the_next_tick(self):
        clock = HybridClock()
        assert [clock.tick(0) for _ in range(20)] == list(range(1, 21))
        assert clock.tick(0x10) == 21

    def test_after_a_received_time_ours_is_later(self):
        clock = HybridClock()
        assert clock.merge(0x9000, now=0x1000)
        assert clock.tick(0x1000) > 0x9000

    def test_a_received_time_in_the_past_is_always_fine(self):
        clock = HybridClock()
        assert clock.merge(0, now=2**63)
        assert clock.last == 2**63

    def test_a_received_time_too_far_ahead_is_ignored(self):
        clock = HybridClock()
        now = 2**62
        clock.tick(now)
        assert not clock.merge(now + 550 * MS, now)  # measured: +550 ms is replaced by a router
        assert clock.last == now
        assert clock.merge(now + 450 * MS, now)  # and +450 ms is kept
        assert clock.last == now + 450 * MS + 1

    def test_the_limit_is_half_a_second_by_default(self):
        assert MAX_DELTA == 500 * 2**32 // 1000
        assert HybridClock(max_delta=2**34).merge(2**34, now=0)

    @given(st.lists(st.tuples(st.none() | st.integers(0, 2**40), st.integers(0, 2**40)), max_size=30))
    def test_ticks_increase_and_exceed_merged_times(self, steps):
        clock = HybridClock()
        greatest = -1
        for received, now in steps:
            if received is None:
                time = clock.tick(now)
                assert time > greatest
                greatest = time
            elif clock.merge(received, now):
                assert clock.last >= max(received, now & ~0xF)
                greatest = max(greatest, received)
