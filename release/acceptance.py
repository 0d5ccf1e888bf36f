# SPDX-License-Identifier: Apache-2.0
"""Try installed wheels as a user would.

    python -m release.acceptance [WHEEL...]           each in a clean environment of a Python that the wheel is for; default: all
                                                      of dist/ that are for this machine
    python -m release.acceptance --with PYTHON...     what PYTHON (and an emulator before it) has installed

Each writes the report of the sample capture, queries it in SQL, and exchanges samples and a query with eclipse-zenoh.
"""

import argparse
import json
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.matrix import find

from release.wheels import DIST, PIP, ROOT, call

COMMAND = "from zenlake.cli import main; main()"
SECONDS = 600  # generous: an emulator takes minutes

# The real Zenoh, in its own process: it answers a query, and repeats on `reply/...` what it receives on `ask/...`.
REAL = """
import sys, zenoh
config = zenoh.Config()
for name, value in {"listen/endpoints": sys.argv[1], "scouting/multicast/enabled": "false", "mode": '"peer"'}.items():
    config.insert_json5(name, value)
session = zenoh.open(config)
publisher = session.declare_publisher("reply/value")
subscriber = session.declare_subscriber("ask/value", lambda sample: publisher.put(b"again " + bytes(sample.payload)))
queryable = session.declare_queryable("query/value", lambda query: query.reply("query/value", b"answer"))
print("ready", flush=True)
sys.stdin.read()
session.close()
"""
OURS = """
import sys, time, zenlake as zenoh
config = zenoh.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", sys.argv[1])
with zenoh.open(config) as session:
    received = session.declare_subscriber("reply/value")
    while True:  # until the declarations have arrived
        session.put("ask/value", b"first")
        time.sleep(0.2)
        sample = received.try_recv()
        if sample is not None:
            break
    [reply] = session.get("query/value")
    print(bytes(sample.payload).decode(), bytes(reply.ok.payload).decode())
"""


def output(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def accept(python: Sequence[str | Path], real: Sequence[str | Path]) -> str:
    """Try the Zenlake of `python` against the eclipse-zenoh of `real`. Return its version line."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        zenlake = [*python, "-c", COMMAND]
        version = output(*zenlake, "--version", cwd=folder).strip()
        output(*zenlake, "report", "sample.pcap", "--out", "report.html", cwd=folder)
        page = (folder / "report.html").read_text("utf-8")
        expect(page.startswith("<!DOCTYPE html>"), "report", page[:80])
        rows = output(*zenlake, "sql", "select count(*) as n from samples", "sample.pcap", "--json", cwd=folder)
        expect(json.loads(rows)["n"] > 1000, "sql", rows)
        said = exchange(python, real, folder)
        expect(said == "again first answer", "pub/sub and get", said)
    return version


def exchange(python: Sequence[str | Path], real: Sequence[str | Path], folder: Path) -> str:
    """Connect Zenlake to the real Zenoh and return the sample and the reply that it received."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoints = json.dumps([f"tcp/127.0.0.1:{free.getsockname()[1]}"])
    arguments = [*map(str, real), "-c", REAL, endpoints]
    with subprocess.Popen(arguments, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            expect(other.stdout.readline() == "ready\n", "eclipse-zenoh", "no session")
            return output(*python, "-c", OURS, endpoints, cwd=folder).strip()
        finally:
            other.communicate(timeout=SECONDS)


def expect(condition: bool, what: str, found: str) -> None:
    if not condition:
        raise SystemExit(f"{what}: unexpected result {found!r}")


def try_wheel(wheel: Path) -> None:
    """Install a wheel in a clean environment of a Python that it is for, and try it."""
    tag = wheel.name.split("-")[2]
    version = f"3.{tag.removeprefix('cp3')}" if tag.startswith("cp3") else None
    found = find()
    command = (sys.executable,) if version is None else found[version].command if version in found else None
    if command is None:
        raise SystemExit(f"{wheel.name}: no CPython {version} found")
    with tempfile.TemporaryDirectory() as temporary:
        python = Path(temporary, "bin", "python")
        call(*command, "-m", "venv", "--without-pip", temporary)
        call(
            *PIP,
            "--python",
            python,
            "install",
            "--constraint",
            ROOT / "constraints.txt",
            wheel,
            "eclipse-zenoh==1.10.2",
        )
        print(f"{wheel.name}: {accept([python], [python])}: report, sql, pub/sub and get work", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m release.acceptance", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL")
    parser.add_argument("--with", nargs="+", dest="python", metavar="PYTHON", help="try what is installed there")
    options = parser.parse_args()
    if options.python:
        python = [str(Path(word).absolute()) if "/" in word else word for word in options.python]
        print(f"{accept(python, python)}: report, sql, pub/sub and get work")
    here = [wheel for wheel in sorted(DIST.glob("*.whl")) if wheel.stem.endswith((f"_{platform.machine()}", "-any"))]
    for wheel in options.wheels or ([] if options.python else here):
        try_wheel(wheel)


if __name__ == "__main__":
    main()
