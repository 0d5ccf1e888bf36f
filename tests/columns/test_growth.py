# SPDX-License-Identifier: Apache-2.0
"""A gigabyte through the decoder: time grows with the input, memory does not."""

import resource
import time

import pytest

from tests.columns.traffic import as_rows
from zenlake.columns import Decoder
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

BATCH = Push(key="fleet/robot17/pose", body=Put(payload=b"x" * 64)).encode() * 500
BATCHES = 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_gigabyte_takes_a_hundred_times_as_long_as_ten_megabytes_and_no_more_memory():
    decoder = Decoder({"samples": None, "events": None})
    decoder.files = ["-"]
    seconds, peaks, rows = [], [], 0
    sn = size = 0
    while size < 1 << 30:
        block = as_rows([(0, Frame(sn=sn + i).encode() + BATCH) for i in range(BATCHES)])
        sn += BATCHES
        size += BATCHES * len(BATCH)
        start = time.process_time()
        decoder.decode(block)
        done = decoder.take()
        seconds.append(time.process_time() - start)
        rows += sum(batch.num_rows for batch in done["samples"])
        assert not done["events"]
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    rows += sum(batch.num_rows for batch in decoder.finish()["samples"])
    assert rows == sn * 500
    half = len(seconds) // 2
    assert sum(seconds[half:]) < 2 * sum(seconds[:half])
    assert peaks[-1] - peaks[len(peaks) // 10] < 64 * 1024  # kB
