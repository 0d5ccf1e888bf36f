# SPDX-License-Identifier: Apache-2.0
"""The counts of the demo agree if the lake has the sent samples. Otherwise the error names the difference."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zenlake.cli.demo.processes import SentCounts
from zenlake.cli.demo.reconcile import reconcile
from zenlake.errors import InvalidValue


def lake(folder, numbers, dropped=0):
    """Create a lake with samples of these keys and numbers, received once, one forwarded picture, and two queries."""
    came = [(key, number, 0) for key, each in numbers.items() for number in each]
    rows = [*came, ("fleet/r0/camera", 0, 1)]
    tables = {
        "samples": {
            "key": [key for key, _, _ in rows], "source_zid": ["a"] * len(rows), "source_eid": [hash(key) for key, _, _ in rows],
            "source_sn": [number for _, number, _ in rows], "direction": [side for _, _, side in rows],
            "request_id": pa.nulls(len(rows), pa.int64()),
        },
        "events": {"kind": ["dropped"], "count": [dropped]},
        "queries": {"direction": [0, 0, 1], "replies": [2, 1, 1], "errors": [0, 1, 0]},
    }  # fmt: skip
    for name, columns in tables.items():
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "part.parquet")
    return folder


def sent_counts(**sent):
    return SentCounts(
        Counter({f"fleet/r0/{topic}": count for topic, count in sent.items()}), Counter({"fleet/r9/imu": 3}),
        Counter(queries=2, replies=3, errors=1), 1,
    )  # fmt: skip


def test_accounts_that_balance_are_listed(tmp_path):
    found = lake(tmp_path, {"fleet/r0/imu": range(5), "fleet/r0/camera": [0, 2], "fleet/r9/imu": range(2)}, dropped=4)
    assert list(reconcile(found, sent_counts(imu=5, camera=3))) == [
        "8 samples sent by 2 publishers are in the lake, each once, except 1 picture that the sender dropped",
        "fleet/r9 was killed after 3 samples: 2 are in the lake, 1 lost in its queues",
        "the slow subscriber processed 1 picture; the router sent it 1 and recorded 4 as dropped",
        "the operator sent 2 queries and received 3 replies and 1 error; the lake has 2, 3 and 1",
    ]


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        (range(4), "in the lake, by key: {'fleet/r0/imu': 1}"),
        (range(6), "in the lake, by key: {'fleet/r0/imu': -1}"),
        ([0, 1, 2, 3, 4, 4], "1 samples are in the lake twice"),
    ],
    ids=["missing", "never sent", "twice"],
)
def test_counters_that_do_not_balance_are_an_error(tmp_path, numbers, why):
    found = lake(tmp_path, {"fleet/r0/imu": numbers, "fleet/r9/imu": range(3)})
    with pytest.raises(InvalidValue) as error:
        list(reconcile(found, sent_counts(imu=5)))
    assert why in str(error.value)
