# SPDX-License-Identifier: Apache-2.0
"""Landing of a log with missing parts: it stops, continues or waits. No row is lost silently or landed twice."""

import shutil

import pytest

import zenlake
from tests.lake.fixtures import MIDNIGHT, add, decoded, recorded, rows
from zenlake.cli import main
from zenlake.errors import LogError
from zenlake.lake import Lake, LandingBatch, pieces, write_parts
from zenlake.log import Log, Retention, Writer, retain
from zenlake.log.layout import RECORD, segment_name
from zenlake.spark.lake_sink import LakeWriter, WrittenParts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

HOUR = 3_600_000_000_000


def land(spark, log, lake, checkpoint=None, **options):
    zenlake.spark.land(
        spark, log, lake, ["samples", "events"], checkpoint=checkpoint, options=options
    ).awaitTermination()


def landed(lake, table="samples"):
    return Lake(lake).totals().get(table, {"rows": 0})["rows"]


def damage(log, block):
    """Write zeros at the beginning of a block."""
    record = Log(log).index(block.writer, block.segment)[block.first]
    with (log / block.writer / segment_name(block.segment)).open("r+b") as file:
        file.seek(record.offset)
        file.write(bytes(64))


def cut_index(log, writer, records):
    """Simulate a power cut: the blocks were synced, the end of the index was not."""
    segment = Log(log).latest()[writer][0]
    index = log / writer / segment_name(segment, "index")
    index.write_bytes(index.read_bytes()[: -records * RECORD.size] + bytes(RECORD.size))  # some systems leave zeros


def test_a_gap_stops_a_landing_that_wants_none(spark, tmp_path, capsys):
    recorded(tmp_path / "log", size=20)
    assert "gap" in zenlake.read(tmp_path / "log", "events")["kind"].to_pylist()
    with pytest.raises(SystemExit) as ended:
        main(["land", str(tmp_path / "log"), str(tmp_path / "lake"), "-t", "samples", "-o", "failOnGap=true"])
    assert ended.value.code == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("zenlake: ")]
    assert "numbers from " in line
    assert "are missing; failOnGap is true" in line
    assert landed(tmp_path / "lake") == 0
    land(spark, tmp_path / "log", tmp_path / "lake")
    assert landed(tmp_path / "lake") == zenlake.read(tmp_path / "log").num_rows > 0


def test_a_damaged_block_stops_a_landing_by_default(spark, tmp_path):
    log, lake = tmp_path / "log", tmp_path / "lake"
    recorded(log, size=20)
    whole = rows(decoded(log, ["samples"])["samples"])
    damage(log, Log(log).plan(size=1)[2])
    with pytest.raises(Exception, match=r"LogError: zenoh: tap-1/.*, block 2: .*; failOnDataLoss=false skips"):
        land(spark, log, lake)
    assert landed(lake) == 0
    land(spark, log, lake, failOnDataLoss="false")
    left = rows(zenlake.read(lake))
    assert 0 < len(left) < len(whole)
    assert set(left) <= set(whole)


@pytest.mark.parametrize("loss", ["damaged", "removed"])
def test_a_commit_recreates_lost_files_as_its_tasks_would(tmp_path, loss):
    """Another query lands the end of a micro-batch before its commit, and its beginning is no longer readable."""
    path = tmp_path / "log"
    recorded(path, segment_size=8000)
    log, lake = Log(path), Lake(tmp_path / "lake", create="delta")
    whole = rows(zenlake.read(path))
    last = {"tap-1": [log.segments("tap-1")[-1], 0]}

    def staged(batch, start, end):
        groups = [(pieces(log.plan(start, end), start, end), ["samples"])]
        return write_parts(lake.location, log, groups, batch, "0")

    mine = staged(LandingBatch("mine", 0), {"tap-1": [1, 0]}, log.latest())
    lake.commit(staged(LandingBatch("theirs", 0), last, log.latest()), LandingBatch("theirs", 0))
    if loss == "damaged":
        damage(path, log.plan(size=1)[1])
    else:
        with Writer(path, "tap-1") as writer:
            assert retain(writer, Retention(size=20_000))[0] == 1
    strict, lenient = (LakeWriter(lake.location.path, str(path), ["samples"], False, each) for each in (True, False))
    with pytest.raises(LogError, match=r"1\.arrow, block 1: " if loss == "damaged" else "retention has removed"):
        strict.commit([WrittenParts("mine", mine)], 0)
    lenient.commit([WrittenParts("mine", mine)], 0)
    left = rows(zenlake.read(lake.location.path))
    assert 0 < len(left) < len(whole)
    assert set(left) <= set(whole)
    if loss == "removed":
        assert left == rows(zenlake.read(path))


def test_blocks_that_retention_removed_stop_a_landing_by_default(spark, tmp_path):
    log, lake = tmp_path / "log", tmp_path / "lake"
    with Writer(log, "tap-1", sync="sealed", block_size=2000) as writer:
        add(writer, seed=1, size=20)
    land(spark, log, lake, reader="other")  # another reader: for its own reader the log would keep unlanded blocks
    first = rows(decoded(log, ["samples"])["samples"])
    with Writer(log, "tap-1", sync="sealed", block_size=2000) as writer:
        for seed in (2, 3):
            add(writer, seed=seed, size=20, since=MIDNIGHT + seed * HOUR)
            writer.seal()
        retain(writer, Retention(size=1000, hard_size=1000))
        add(writer, seed=4, size=20, since=MIDNIGHT + 4 * HOUR)
    with pytest.raises(
        Exception, match=r"retention has removed blocks .* failOnDataLoss=false continues with the next existing blocks"
    ):
        land(spark, log, lake)
    assert landed(lake) == len(first)
    land(spark, log, lake, failOnDataLoss="false")
    assert rows(zenlake.read(lake)) == sorted(first + rows(decoded(log, ["samples"])["samples"]))


def test_after_a_power_cut_a_landing_waits_for_the_writer_and_continues(spark, tmp_path):
    log, lake = tmp_path / "log", tmp_path / "lake"
    with Writer(tmp_path / "before", "tap-1", sync="block", block_size=2000) as writer:
        add(writer, seed=1, size=20)
        shutil.copytree(tmp_path / "before", log)  # as a crash leaves it
    land(spark, log, lake)
    first = landed(lake)
    end = Log(log).latest()
    cut_index(log, "tap-1", 3)
    assert Log(log).latest()["tap-1"] < end["tap-1"]
    land(spark, log, lake)
    assert landed(lake) == first > 0
    with Writer(log, "tap-1", sync="block", block_size=2000) as writer:
        add(writer, seed=2, size=20, since=MIDNIGHT + HOUR)
    land(spark, log, lake)
    for table, expected in decoded(log, ["samples", "events"]).items():
        assert rows(zenlake.read(lake, table)) == rows(expected)
    assert landed(lake) > first


def test_a_log_that_lost_blocks_which_were_landed_is_refused(spark, tmp_path):
    log, lake = tmp_path / "log", tmp_path / "lake"
    with Writer(tmp_path / "before", "tap-1", sync="block", block_size=2000) as writer:
        add(writer, seed=1, size=20)
        shutil.copytree(tmp_path / "before", log)
    land(spark, log, lake)
    first = landed(lake)
    damage(log, Log(log).plan(size=1)[-1])
    cut_index(log, "tap-1", 1)
    with pytest.raises(Exception, match=r"was read up to .* of tap-1, but it ends at .*: it was emptied or replaced"):
        land(spark, log, lake)
    assert landed(lake) == first
