# SPDX-License-Identifier: Apache-2.0
"""Captures of each version: what its nodes send must decode without a row in `errors`."""

import signal
import subprocess
from pathlib import Path

import zenlake
from tests.versions.matrix import Cell, run_topology
from tests.versions.topologies import NETWORKS, Network

CAPTURE = "a capture of that version"
TOPOLOGY = next(topology for topology in NETWORKS if topology.name == "their clients through our router")


def record(version: str, path: Path, prefix: tuple[str, ...]) -> Cell:
    """Record all scenarios between nodes of one version on the loopback interface of a namespace."""
    command = (
        *prefix,
        "tcpdump",
        "-B",
        "32768",
        "-Z",
        "root",
        "-s",
        "0",
        "--immediate-mode",
        "-i",
        "lo",
        "-w",
        path,
        "tcp",
    )
    tcpdump = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
    assert tcpdump.stderr is not None
    try:
        heard = next((line for line in tcpdump.stderr if "listening on" in line), None)
        assert heard is not None, "tcpdump does not start"
        return run_topology(TOPOLOGY, lambda: Network(version, version, prefix), version, version)
    finally:
        tcpdump.send_signal(signal.SIGINT)
        tcpdump.communicate(timeout=30)


def check(path: Path) -> list[str]:
    """Return what a capture has that it should not have."""
    errors = zenlake.read(path, "errors").to_pylist()
    found = [f"error: {row['field']}: {row['why']}" for row in errors[:3]]
    if not zenlake.read(path, "samples", columns=["key"]).num_rows:
        found.append("no samples")
    return found


def run_capture(version: str, folder: Path, prefix: tuple[str, ...], place: str) -> Cell:
    path = folder / f"{version}.pcap"
    cell = Cell(version, CAPTURE, place)
    try:
        record(version, path, prefix)
        wrong = check(path)
    except Exception as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if wrong:
        cell.failed["decodes without errors"] = "; ".join(wrong)
    else:
        cell.passed = 1
    return cell
