# SPDX-License-Identifier: Apache-2.0
"""The test programs of zenoh-pico with a router: `python -m tests.versions --pico FOLDER`.

FOLDER is a build folder of zenoh-pico with BUILD_INTEGRATION, Z_FEATURE_UNSTABLE_API, the features under test, and the sizes
of batches and fragments that its own continuous integration uses. Each program runs in a network namespace of its own, with one
router at the default port. The router is ours, or the yardstick.
"""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interop.conftest import apart
from tests.interop.nodes import Theirs
from tests.versions.matrix import Cell

PICO = "zenoh-pico"
PROGRAMS = "test programs of zenoh-pico"

LOOPBACK = ("ip link set lo up", "ip link set lo multicast on", "ip route add 224.0.0.0/4 dev lo src 127.0.0.1")
TCP, UDP = "tcp/127.0.0.1:7447", "udp/127.0.0.1:7447"
GROUP = "udp/224.0.0.123:7447#iface=lo"
LIMIT = 400.0  # seconds of one program

LINKED = ("z_client_test",)
"""Programs that run with each kind of link."""
ROUTED = (
    "z_api_alignment_test", "z_wildcard_subscription_test", "z_api_liveliness_test", "z_api_cancellation_test",
    "z_api_matching_test", "z_api_source_info_test", "z_api_connectivity_test", "z_api_queryable_test",
    "z_api_advanced_pubsub_test", "z_api_local_queryable_test", "z_api_local_subscriber_test", "z_api_admin_space_test",
    "z_multi_pubsub_test", "z_multi_queryable_test", "z_api_callback_drop_on_undeclare_test", "z_api_batching_test",
)  # fmt: skip
SCRIPTS: dict[str, tuple[str, ...]] = {
    "routed_peer_client.py": (TCP, GROUP),
    "modularity.py": ("--pub", "1", "--sub", "1", "--queryable", "1", "--query", "1"),
    "attachment.py": (),
}
"""Programs in Python that run its examples."""


def list_programs(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the command of each program that was built, by name."""
    tests = folder / "tests"
    commands = {f"{name}, {link[:3]}": (str(tests / name), link) for name in LINKED for link in (TCP, UDP)}
    commands |= {name: (str(tests / name), TCP) for name in ROUTED}
    commands |= {name: (sys.executable, str(tests / name), *options) for name, options in SCRIPTS.items()}
    return {name: each for name, each in commands.items() if (tests / name.partition(",")[0]).exists()}


def run_programs(folder: Path, place: str, jobs: int) -> Cell:
    """Run all programs with a router of this implementation, some at the same time."""
    cell = Cell(PICO, PROGRAMS, place)
    commands = list_programs(folder.resolve())
    if not commands:
        raise SystemExit(f"{folder}/tests has no test programs of zenoh-pico; build it with BUILD_INTEGRATION")
    with tempfile.TemporaryDirectory() as work:
        Path(work, "build").symlink_to(folder.resolve())  # where the programs in Python look for the examples

        def run(name: str) -> str:
            # As for scenarios: the machine may be busy.
            problem = run_program(commands[name], place, work) and run_program(commands[name], place, work)
            print(f"{PICO} {place:8} {name}: {problem or 'passed'}", flush=True)
            return problem

        with ThreadPoolExecutor(jobs) as pool:
            problems = dict(zip(commands, pool.map(run, commands), strict=True))
    cell.failed = {name: problem for name, problem in problems.items() if problem}
    cell.passed = len(problems) - len(cell.failed)
    return cell


def run_program(command: tuple[str, ...], place: str, work: str) -> str:
    """Run one program. Return the reason of its failure."""
    with apart(LOOPBACK) as prefix:
        scouting = {"scouting/multicast/enabled": True, "scouting/multicast/interface": "lo"}
        # Only what the program uses: some programs bind the UDP port themselves.
        listen = (UDP,) if UDP in command else (TCP, GROUP) if GROUP in command else (TCP,)
        router = Theirs("router", (), listen, place, prefix, **scouting)
        try:
            done = subprocess.run(
                [*prefix, *command],
                cwd=work,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end in {LIMIT:g} s"
        finally:
            router.kill()
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return f"exit code {done.returncode}: {lines[-1] if lines else ''}"[:200]
