# SPDX-License-Identifier: Apache-2.0
"""Compare `queries` with the counts that a client and a queryable of eclipse-zenoh keep of all their queries."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import zenlake
from tests.interop.nodes import PATIENCE, Ours, knows, until
from zenlake.log.recorder import Recorder
from zenlake.log.writer import Writer
from zenlake.tap.connection_recorder import ConnectionRecorder

pytestmark = pytest.mark.interop

RESOLUTION = 0.001  # ms; received times are whole microseconds

# (key, parameters, timeout): the last chunk selects the action of the queryable.
QUESTIONS = [(f"ask/{turn}/{manner}", f"turn={turn}", 10.0) for turn in range(6) for manner in ("1", "3", "0", "err")]
QUESTIONS += [("ask/x/silent", "", 0.3), ("no/queryable", "", 10.0), ("ask/y/dies", "a=1;b=2", 10.0)]

# Results at the querier and at the queryable: replies, errors, outcome.
OUTCOMES = {
    "1": ((1, 0, "answered"), (1, 0, "answered")),
    "3": ((3, 0, "answered"), (3, 0, "answered")),
    "0": ((0, 0, "empty"), (0, 0, "empty")),
    "err": ((0, 1, "error"), (0, 1, "error")),
    "silent": ((0, 1, "timeout"), (0, 1, "timeout")),  # eclipse-zenoh itself ends the query of its queryable
    "dies": ((0, 0, "empty"), (0, 0, "lost")),
}


@contextmanager
def wheel(role: str, where: str) -> Iterator[subprocess.Popen[str]]:
    script = str(Path(__file__).with_name("wheel_asking.py"))
    process = subprocess.Popen(
        [sys.executable, script, role, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline()) == ["ready"]
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdin.close()
        process.stdout.close()


def test_every_question_its_answers_its_time_and_its_outcome(tmp_path: Path) -> None:
    recorder = Recorder(Writer(tmp_path / "log", "router"))
    router = Ours("router", listen=("tcp/127.0.0.1:0",), recording=ConnectionRecorder(recorder))
    asked: list[Any] = []
    with wheel("answer", router.locators[0]) as answerer, wheel("ask", router.locators[0]) as asker:
        knows(router, "ask/**")
        assert asker.stdin is not None
        assert asker.stdout is not None
        for key, parameters, timeout in QUESTIONS:
            asker.stdin.write(json.dumps([f"{key}?{parameters}" if parameters else key, timeout]) + "\n")
            asker.stdin.flush()
            asked.append(json.loads(asker.stdout.readline()))
        assert answerer.stdout is not None
        answered = {line[0]: line for line in map(json.loads, answerer.stdout)}
    until(lambda: not router.node.faces())
    router.close()
    recorder.close()

    queries = zenlake.read(tmp_path / "log", "queries").sort_by("received").to_pylist()
    of_asker = [row for row in queries if row["from_session"] is None]
    of_answerer = {row["key"]: row for row in queries if row["from_session"] is not None}
    assert [(row["key"], row["parameters"]) for row in of_asker] == [
        (key, words or None) for key, words, _ in QUESTIONS
    ]
    assert list(of_answerer) == [key for key, _, _ in QUESTIONS if key.startswith("ask/")]
    assert len(queries) == len(of_asker) + len(of_answerer)
    for (key, _, timeout), row, (_, began, came, ended) in zip(QUESTIONS, of_asker, asked, strict=True):
        manner = key.rpartition("/")[2]
        expected = OUTCOMES[manner] if key.startswith("ask/") else ((0, 0, "empty"), None)
        assert (row["replies"], row["errors"], row["outcome"]) == expected[0], key
        assert row["timeout_ms"] == timeout * 1000
        assert [kind for kind, _ in came].count("reply") == row["replies"]
        took = (ended - began) / 1e6
        assert 0 <= row["final_ms"] <= took + RESOLUTION or manner == "silent"
        if expected[1] is None:
            continue
        theirs = of_answerer[key]
        assert (theirs["from_session"], theirs["from_request_id"]) == (row["session"], row["request_id"])
        assert (theirs["replies"], theirs["errors"], theirs["outcome"]) == expected[1], key
        if row["replies"]:
            # The figure of the router lies between the wait of the querier and the duration at the queryable, by their own clocks.
            _, _, question, left = answered[key]
            first = next(at for kind, at in came if kind == "reply")
            assert (left[0] - question) / 1e6 <= theirs["first_reply_ms"] + RESOLUTION
            assert theirs["first_reply_ms"] <= row["first_reply_ms"] + RESOLUTION
            assert row["first_reply_ms"] <= (first - began) / 1e6 + RESOLUTION
