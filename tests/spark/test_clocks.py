# SPDX-License-Identifier: Apache-2.0
"""A robot whose clock is a day ahead changes only its own rows, and only the columns that depend on its clock."""

from datetime import UTC, datetime

import pytest

import zenlake
from tests.columns.traffic import Traffic
from tests.lake.fixtures import MIDNIGHT, rows
from zenlake.core.identifiers import Timestamp
from zenlake.log import Writer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SECOND = 1_000_000_000
DAY = 86_400
ROBOT = "10.0.0.7:40000"
CLOCK_COLUMNS = {
    "timestamp",
    "ntp64",
    "clock_skew",
    "age_p50_us",
    "age_p99_us",
    "log",  # the two recordings are two logs
}  # columns that depend on the timestamp of a sample
TABLES = ("samples", "sessions", "gaps", "queries", "latest", "rates")


class Clocked(Traffic):
    """Return timestamps of a clock that agrees with the recording, or is ahead of it."""

    ahead = 0

    def origin(self):
        values = super().origin()
        if "timestamp" in values:
            seconds = MIDNIGHT // SECOND + self.ahead
            stamp = (seconds << 32) + (len(self.batches) << 20)
            values["timestamp"] = Timestamp.from_wire(stamp, values["timestamp"].id.to_wire())
        return values


class Robot(Clocked):
    """Use one key per publisher: the newest sample of a shared key depends on the clocks."""

    def key(self, direction):
        scope, sender, suffix = super().key(direction)
        return 0, sender, f"robot/{scope}/{(suffix or 'x').strip('/')}"


def record(path, ahead):
    """Write three sessions around midnight, a batch every second. An hour later batches end all windows and conversations."""
    kind = type("Robot", (Robot,), {"ahead": ahead})
    said = {"10.0.0.1:40000": Clocked(1, 40), "10.0.0.2:40000": Clocked(2, 40), ROBOT: kind(3, 40)}
    with Writer(path, "tap-1", sync="sealed", block_size=2000) as writer:
        faces = {peer: writer.face("tcp", peer, "10.0.0.99:7447") for peer in said}
        for turn in range(max(len(each.batches) for each in said.values())):
            for i, (peer, each) in enumerate(said.items()):
                if turn < len(each.batches):
                    direction, data = each.batches[turn]
                    writer.append(faces[peer], direction, data, received=MIDNIGHT + (3 * turn + i - 60) * SECOND)
        late = writer.face("tcp", "10.0.0.3:40000", "10.0.0.99:7447")
        for i, (direction, data) in enumerate(Clocked(4, 4).batches):
            writer.append(late, direction, data, received=MIDNIGHT + (3600 + i) * SECOND)
    return str(path)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return {ahead: record(folder / str(ahead), ahead) for ahead in (0, DAY)}


def others(table):
    """Return the rows of other robots. The recordings are two logs."""
    found = table.filter([ROBOT not in session for session in table["session"].to_pylist()])
    return rows(found.select([name for name in table.schema.names if name != "log"]))


def robots(table):
    """Return the rows without the columns that depend on the clock."""
    names = [name for name in table.schema.names if name not in CLOCK_COLUMNS]
    return rows(table.filter([ROBOT in session for session in table["session"].to_pylist()]).select(names))


def test_clock_steps_in_a_lake_and_derived_tables(spark, logs, tmp_path):
    found, days = {}, {}
    for ahead, log in logs.items():
        lake = tmp_path / str(ahead)
        zenlake.spark.land(spark, log, lake, ["messages", "samples", "events"]).awaitTermination()
        days[ahead] = sorted(folder.name for folder in (lake / "samples").glob("day=*"))
        stored = zenlake.spark.tables(spark, str(lake))
        found[ahead] = {name: stored[name].toArrow() for name in TABLES}
    assert days[0] == days[DAY] == ["day=2026-01-31", "day=2026-02-01"]
    for name, right in found[0].items():
        assert others(found[DAY][name]) == others(right) != [], name
        if name != "latest":  # the newest sample of its own keys is the newest by its clock
            assert robots(found[DAY][name]) == robots(right) != [], name
    samples = found[DAY]["samples"].to_pylist()
    skews = [row["clock_skew"] for row in samples if ROBOT in row["session"] and row["timestamp"] is not None]
    assert min(skews) > (DAY - 600) * 1_000_000


@pytest.mark.parametrize("name", ["rates", pytest.param("queries", marks=pytest.mark.slow)])
def test_in_streams_with_watermarks(spark, logs, tmp_path, name):
    over = datetime.fromtimestamp(MIDNIGHT // SECOND + 1800, UTC)
    expected = zenlake.read(logs[0], name, until=over)
    options = {"startingOffsets": "earliest", "maxBytesPerTrigger": "9000"}
    streamed = zenlake.spark.stream(spark, logs[DAY], name, patience="20 minutes", options=options)
    writer = streamed.writeStream.format("memory").queryName(f"ahead_{name}").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    query.awaitTermination()
    assert len([each for each in query.recentProgress if each["numInputRows"]]) > 2
    found = spark.table(f"ahead_{name}").toArrow()
    assert others(found) == others(expected) != []
    assert robots(found) == robots(expected) != []
