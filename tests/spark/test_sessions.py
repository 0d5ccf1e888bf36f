# SPDX-License-Identifier: Apache-2.0
"""A session in a Spark job works in the process that opened it. Elsewhere an error has the remedy. No call blocks forever."""

import os
from pickle import PicklingError

import pytest
from pyspark.errors import PythonException

import zenlake
from tests.api.nodes import config, listening
from tests.spark.landing import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DAEMON = "spark.python.daemon.module"
# A module that opens a session at its first use, as in programs that share a session between tasks.
KEPT = """
import os, zenlake
session = None
def put(config, key):
    global session
    if session is None:
        session = zenlake.open(config)
    session.put(key, f"{os.getpid()} {session.zid()}")
"""


@pytest.fixture
def driver():
    """A session of the driver, what it hears of workers, and the configuration of theirs."""
    session, where = listening()
    with session:
        yield session, session.declare_subscriber("worker/**"), config(connect=where)


def in_workers(spark, use):
    """Let two tasks call the function with each of their rows."""

    def task(batches):
        for batch in batches:
            for row in batch.column(0).to_pylist():
                use(row)
            yield batch

    rows = spark.range(4, numPartitions=2)
    return sorted(row.id for row in rows.mapInArrow(task, rows.schema).collect())


def test_driver_only_options_are_refused_before_the_job_begins(spark, driver):
    session, subscriber, _ = driver
    for mine, what in (
        (session, "a Session belongs to its process .* pass its Config and open another"),
        (subscriber, "a Subscriber belongs to its session"),
        (session.declare_publisher("worker/a"), "a Publisher belongs to its session"),
    ):
        with pytest.raises(PicklingError, match=what):
            in_workers(spark, lambda row, mine=mine: mine.put(f"worker/{row}", "x"))


def test_a_session_opened_in_a_task_works_there(spark, driver):
    _, subscriber, wanted = driver

    def use(row):
        with zenlake.open(wanted) as session:
            session.put(f"worker/{row}", str(row))

    assert in_workers(spark, use) == [0, 1, 2, 3]
    assert sorted(str(subscriber.recv(PATIENCE).payload) for _ in range(4)) == ["0", "1", "2", "3"]


def test_a_session_in_a_module_lives_as_long_as_its_worker(spark, driver, tmp_path):
    _, subscriber, wanted = driver
    (tmp_path / "zenlake_kept.py").write_text(KEPT)
    spark.sparkContext.addPyFile(str(tmp_path / "zenlake_kept.py"))

    def use(row):
        import zenlake_kept

        zenlake_kept.put(wanted, f"worker/{row}")

    for _ in range(2):  # the second time in the same workers, unless Spark has ended one
        assert in_workers(spark, use) == [0, 1, 2, 3]
    payloads = [str(subscriber.recv(PATIENCE).payload).split() for _ in range(8)]
    processes = {process for process, _ in payloads}
    assert str(os.getpid()) not in processes
    assert len(dict(payloads)) == len(set(map(tuple, payloads))) == len(processes) < 8


def test_a_session_forked_into_a_worker_raises_with_a_hint(spark, driver):
    _, subscriber, wanted = driver
    settings = spark.sparkContext._jsc.sc().conf()  # as they are in use, not a copy

    def use(how):
        def call(row):
            import __main__ as daemon

            how(daemon)

        return in_workers(spark, call)

    def open_own(daemon):
        assert daemon.session.is_closed()
        with zenlake.open(wanted) as own:
            own.put("worker/own", "x")

    settings.set(DAEMON, "tests.spark.session_before_fork")
    try:
        for how in (
            lambda daemon: daemon.session.put("worker/a", "x"),
            lambda daemon: daemon.subscriber.recv(),
            lambda daemon: next(iter(daemon.subscriber)),
        ):
            with pytest.raises(PythonException, match=r"opened before a fork .* open another one in this process"):
                use(how)
        assert use(open_own) == [0, 1, 2, 3]
        assert str(subscriber.recv(PATIENCE).payload) == "x"
    finally:
        settings.remove(DAEMON)
