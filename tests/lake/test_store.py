# SPDX-License-Identifier: Apache-2.0
"""Lakes in an object store (moto's S3 on loopback), also with a proxy that loses requests and responses."""

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress

import pyarrow as pa
import pytest

import zenlake
from tests.lake.fixtures import decoded, recorded, rows
from tests.lake.test_commit import FORMATS, intervals, land, place
from zenlake.cli import main
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch, compact, remove_orphans, write_rows
from zenlake.lake.store_check import check_store
from zenlake.log import Log
from zenlake.tables import query
from zenlake.tables.lake_reader import read_snapshot

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("credentials")]

# A driver in a process of its own. It lands its share repeatedly until all is landed. The test kills it.
DRIVER = """
import random, sys
from tests.lake.store import Store
from tests.lake.test_commit import land, place
from zenlake.lake import Lake, LandingBatch
from zenlake.log import Log

lake, log, seed = Lake(sys.argv[1]), Log(sys.argv[2]), int(sys.argv[3])
r = random.Random(seed)
for number in range(4):
    start, size = place(log, r.random() * 0.9), r.choice((3000, 9000))
    land(lake, log, LandingBatch(f"q{seed}", number), start=start, tables=["samples"], size=size)
land(lake, log, LandingBatch(f"q{seed}", 4), tables=["samples"])
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path, size=12)
    return path


@pytest.fixture
def address(request):
    return f"s3://lake/{request.node.name.replace('[', '-').replace(']', '')}"


@FORMATS
def test_a_lake_in_a_store_is_landed_read_and_compacted(address, path, format, capsys, tmp_path):
    lake, log = Lake(address, create=format), Log(path)
    land(lake, log, LandingBatch("late", 0), start=place(log, 1 / 2), size=2000)
    land(lake, log, LandingBatch("all", 0), size=2000)
    for table in ("samples", "events"):
        assert rows(zenlake.read(address, table)) == rows(decoded(path, [table])[table])
    once = zenlake.read(path).num_rows
    assert query("select count(*) as n from samples", address).to_pylist() == [{"n": once}]
    done = compact(lake)[1]
    assert done.files > done.into > 0
    remove_orphans(lake, hours=0)
    assert rows(zenlake.read(address)) == rows(zenlake.read(path))
    with pytest.raises(SystemExit) as ended:
        main(["lake", "info", address, "--json"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert f'"rows": {once}' in output.replace('":', '": ').replace("  ", " ")
    assert "secret-of-test" not in output
    with pytest.raises(SystemExit) as ended:
        main(["report", address, "--out", str(tmp_path / "page.html")])
    assert ended.value.code in (0, None)
    assert address in (tmp_path / "page.html").read_text()


@FORMATS
def test_a_commit_with_a_lost_response_lands_once(store, address, path, format):
    """The ambiguous commit: it was written, but the driver never knows."""
    lake, log = Lake(address, create=format), Log(path)
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    with store.faults(lost_response=1, unavailable=1):
        land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 2), tables=["samples"])
        assert not any(store.left().values()), "both faults were met"
    assert rows(zenlake.read(address)) == rows(zenlake.read(path))
    [[*start, _, _]] = intervals(lake, log)["tap-1"]
    assert start == [0, 0]


@FORMATS
def test_a_replacement_with_a_lost_response_happens_once(store, address, path, format):
    """Compaction, and `refresh`, which replaces days of a derived table."""
    lake, log = Lake(address, create=format), Log(path)
    land(lake, log, LandingBatch("q", 0), tables=["samples"], size=3000)
    with store.faults(lost_response=1):
        compact(lake)
        assert not any(store.left().values())
    assert rows(zenlake.read(address)) == rows(zenlake.read(path))
    for value in (1, 2):
        batch = pa.record_batch({"x": [value]})
        made = write_rows(lake.location, [("latest", batch)], {"latest": batch.schema}, LandingBatch("q", value), "0")
        with store.faults(lost_response=1):
            lake.replace("latest", made, lambda opened: opened.files(), None, {})
            assert not any(store.left().values())
        assert read_snapshot(address, "latest").dataset(batch.schema).to_table().to_pylist() == [{"x": value}]


@pytest.mark.slow  # half a minute for each format
@FORMATS
def test_drivers_that_are_killed_at_random_land_every_row_once(address, path, format):
    Lake(address, create=format)
    log = Log(path)
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = {**os.environ, "PYTHONPATH": root}
    r = random.Random(1)
    for turn in range(3):
        drivers = [
            subprocess.Popen([sys.executable, "-c", DRIVER, address, str(path), str(10 * turn + i)], env=environment)
            for i in range(2)
        ]
        for driver in drivers:
            if turn < 2:
                with suppress(subprocess.TimeoutExpired):
                    driver.wait(r.uniform(1.5, 3.0))
                driver.send_signal(signal.SIGKILL)
            driver.wait(200)
        assert turn < 2 or [driver.returncode for driver in drivers] == [0, 0]
        found = rows(zenlake.read(address)) if Lake(address).tables() else []
        assert len(found) == len(set(map(str, found))) or turn < 2
    assert rows(zenlake.read(address)) == rows(zenlake.read(path))
    assert log.writers() == ["tap-1"]


def test_a_store_that_ignores_conditional_writes_is_refused(store, address):
    with store.faults(ignore_conditions=1):
        with pytest.raises(LakeError, match=r"ignores conditional writes \(If-None-Match\)") as refused:
            Lake(address, create="delta")
        assert dict(check_store("s3://lake/any"))["conditional writes"].startswith("s3://lake/any ignores")
    assert "\n" not in str(refused.value)
    assert Lake(address, create="delta").tables() == []
    assert dict(check_store("s3://lake/any")) == dict.fromkeys(
        ("writing", "range reads", "listing", "conditional writes"), ""
    )
