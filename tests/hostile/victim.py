# SPDX-License-Identifier: Apache-2.0
"""The node under attack: a real process on loopback, with its memory, its log and its metrics as an operator sees them."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests import certificates

PATIENCE = 30.0
ZENLAKE = (sys.executable, "-c", "from zenlake.cli import main; main()")
SCOUTING = "224.0.0.224"
LISTENERS = {"tcp", "tls", "ws", "wss", "udp", "quic", "unix"}
SECURE = {"tls", "wss", "quic"}
WHEEL = """
import json, sys, zenoh
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
zenoh.init_log_from_env_or("error")
with zenoh.open(config):
    print("router listens on", ", ".join(json.loads(sys.argv[1])["listen/endpoints"]), file=sys.stderr, flush=True)
    sys.stdin.read()
"""
PEER = """
import signal, sys, threading, zenlake
from zenlake import Config
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
config = Config()
for pair in sys.argv[1:]:
    key, _, value = pair.partition("=")
    config.insert_json5(key, value)
with zenlake.open(config) as session:
    session.declare_queryable("honest/answer", lambda query: query.reply("honest/answer", b"value"))
    print("peer listens on its endpoints", file=sys.stderr, flush=True)
    stop.wait()
"""


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """Return a port of loopback that is free now."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Victim:
    """A node in a process of its own.

    Attributes:
        endpoints: Address of each listener by scheme; `scouting` is the group of SCOUT messages.
    """

    def __init__(self, command: list[str], folder: Path, endpoints: dict[str, str], stdin: bool = False) -> None:
        self.endpoints = endpoints
        self.metrics_port = 0
        self._log = folder / "stderr"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while " listens on " not in self.log:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the node did not start: {self.log}")
            time.sleep(0.02)

    @property
    def log(self) -> str:
        """The log up to now."""
        return self._log.read_text(errors="replace")

    @property
    def memory(self) -> int:
        """Resident bytes; 0 if the process ended."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """Largest number of resident bytes since the last call of `reset_peak`; 0 if the process ended."""
        return self._status("VmHWM")

    def reset_peak(self) -> None:
        """Let `peak` begin with the memory of now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _status(self, field: str) -> int:
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(rf"{field}:\s+(\d+)", text)
        return int(found[1]) << 10 if found else 0

    def processor_times(self) -> dict[str, tuple[int, int]]:
        """Return for each thread the nanoseconds that it ran, and that it was ready to run and had no processor."""
        found = {}
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                ran, waited, _ = map(int, path.read_text().split())
                found[path.parent.name] = (ran, waited)
        return found

    def metrics(self) -> dict[str, float]:
        """Return the figures of /metrics, by name with labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def terminate(self, patience: float) -> int | None:
        """Send SIGTERM. Return the exit code, or None if the process has not ended after `patience` seconds."""
        if self.process.stdin is not None:
            self.process.stdin.close()  # a wheel in a Python process ends with its input
        else:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the process if it still runs."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


def start_router(folder: Path, needs: Iterable[str] = (), options: tuple[str, ...] = ()) -> Victim:
    """Start `zenlake router` with compression, a listener for tcp and those that an attack needs.

    Args:
        folder: Empty folder for certificates, the unix socket and the log.
        needs: Schemes of listeners; also `scouting` and `metrics`.
        options: More options of the command.
    """
    schemes = {"tcp", *needs}
    endpoints = choose_endpoints(folder, schemes)
    words = [word for endpoint in endpoints.values() for word in ("-l", endpoint)]
    settings = {"transport/unicast/compression/enabled": "true", "scouting/multicast/enabled": "false"}
    if schemes & SECURE:
        certificates.make(folder)
        settings |= {
            "transport/link/tls/listen_certificate": f"{folder}/server.pem",
            "transport/link/tls/listen_private_key": f"{folder}/server.key",
        }
    if "scouting" in schemes:
        endpoints["scouting"] = f"{SCOUTING}:{free_port(socket.SOCK_DGRAM)}"
        settings |= {
            "scouting/multicast/enabled": "true",
            "scouting/multicast/address": endpoints["scouting"],
            "scouting/multicast/interface": "lo",
        }
    words += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    page = free_port()
    endpoints["metrics"] = f"http/127.0.0.1:{page}"
    command = [*ZENLAKE, "router", *words, "--metrics", f"127.0.0.1:{page}", *options]
    victim = Victim(command, folder, endpoints)
    victim.metrics_port = page
    return victim


def choose_endpoints(folder: Path, schemes: Iterable[str]) -> dict[str, str]:
    """Return a free address of loopback for each scheme that is a listener."""
    endpoints = {}
    for scheme in sorted(LISTENERS & set(schemes)):
        kind = socket.SOCK_DGRAM if scheme in ("udp", "quic") else socket.SOCK_STREAM
        endpoints[scheme] = f"{scheme}/127.0.0.1:{free_port(kind)}"
    if "unix" in endpoints:
        endpoints["unix"] = f"unixsock-stream/{folder}/socket"
    return endpoints


def start_peer(folder: Path) -> Victim:
    """Start a peer of ours that is a member of a multicast group on loopback and answers queries on honest/answer."""
    endpoints = {"tcp": f"tcp/127.0.0.1:{free_port()}"}
    endpoints["group"] = f"udp/224.0.0.225:{free_port(socket.SOCK_DGRAM)}"
    listen = ",".join(f'"{each}{"#iface=lo" if name == "group" else ""}"' for name, each in endpoints.items())
    settings = ['mode="peer"', f"listen/endpoints=[{listen}]", "scouting/multicast/enabled=false"]
    return Victim([sys.executable, "-c", PEER, *settings], folder, endpoints)


def start_wheel(folder: Path, needs: Iterable[str] = ()) -> Victim:
    """Start the reference router, the wheel eclipse-zenoh, with a listener for tcp and those that an attack needs."""
    certificates.make(folder)
    endpoints = choose_endpoints(folder, {"tcp", *needs})
    config: dict[str, Any] = {
        "mode": "router",
        "listen/endpoints": list(endpoints.values()),
        "transport/link/tls/listen_certificate": f"{folder}/server.pem",
        "transport/link/tls/listen_private_key": f"{folder}/server.key",
        "transport/unicast/compression/enabled": True,
        "scouting/multicast/enabled": False,
    }
    return Victim([sys.executable, "-c", WHEEL, json.dumps(config)], folder, endpoints, stdin=True)
