# SPDX-License-Identifier: Apache-2.0
"""`zenlake doctor`: check the environment and suggest fixes."""

import importlib.util
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from rich.text import Text

from zenlake import __version__
from zenlake.cli.console import Printer
from zenlake.cli.formatting import escape
from zenlake.wire.raw_memory import COMPILED

GROUP, SCOUTING, PORT = "224.0.0.224", 7446, 7447
HANDLES = 4096
DEPRECATED_FIX = "mend"  # former name of the field `fix` in `--json`, kept until version 0.3
MARKS = {"ok": "[green]✓[/]", "advice": "[yellow]![/]", "missing": "[red]✗[/]"}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    `state` is `ok`, `advice` (works with reduced speed or features) or `missing` (a requirement is not met).
    """

    check: str
    state: str
    found: str
    fix: str = ""

    def fields(self) -> dict[str, str]:
        """Return the fields of `--json`, with the deprecated name of `fix`."""
        return asdict(self) | {DEPRECATED_FIX: self.fix}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per check.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="ADDRESS",
            help="Check whether this address, like s3://bucket/lake, can hold a lake. No other check runs.",
        ),
    ] = None,
) -> int:
    """Check Python, compiler, compiled modules, Java, Spark, ports, multicast and limits, and suggest fixes.

    The exit code is 1 if a requirement of Zenlake is missing. Missing parts of an extra are reported as advice.

    With --store, it writes and removes small files in that folder.

    $ zenlake doctor
    $ zenlake doctor --store s3://bucket/lake
    """
    console = Printer(highlight=False)
    states = set()
    for finding in examine() if store is None else examine_store(store):
        states.add(finding.state)
        if as_json:
            typer.echo(json.dumps(finding.fields()))
            continue
        console.print(f"{MARKS[finding.state]} {finding.check:<17} ", end="")
        console.print(Text(escape(finding.found)), soft_wrap=True)
        if finding.fix:
            console.print(Text(escape(f"  {'':<17} → {finding.fix}"), style="dim"), soft_wrap=True)
    return 1 if "missing" in states else 0


def examine_store(address: str) -> Iterator[Finding]:
    """Check what `land` needs of an object store."""
    from zenlake.lake.store_check import check_store

    for check, error in check_store(address):
        yield Finding(check, "missing" if error else "ok", error or "works")


def examine() -> Iterator[Finding]:
    """Run every check. An unexpected error in a check becomes advice and does not stop the others."""
    checks: tuple[Callable[[], Finding], ...] = (
        python, arrow, duckdb, check_compiled, compiler, java, spark, worker, tcp_port, scouting_port, multicast, handles,
    )  # fmt: skip
    for check in checks:
        try:
            yield check()
        except Exception as error:  # the remaining checks must still run
            yield Finding(
                check.__name__.replace("_", " "), "advice", f"check failed: {error}", "please report this as a bug"
            )


def python() -> Finding:
    found = f"{platform.python_version()} ({sys.executable}), zenlake {__version__}"
    return Finding("python", "ok", found)


def arrow() -> Finding:
    return package("pyarrow", "missing", "pip install pyarrow")


def duckdb() -> Finding:
    return package("duckdb", "missing", "derived tables, `sql` and `report` need it: pip install duckdb")


def package(name: str, state: str, fix: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, state, "not installed", fix)


def check_compiled() -> Finding:
    if COMPILED:
        return Finding("compiled modules", "ok", "in use")
    if os.environ.get("ZENLAKE_PURE"):
        return Finding("compiled modules", "advice", "disabled by ZENLAKE_PURE", "unset ZENLAKE_PURE")
    return Finding(
        "compiled modules",
        "advice",
        "not built: everything works, but many times slower",
        "install a C compiler, then run `make setup` or reinstall",
    )


def compiler() -> Finding:
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    where = shutil.which(command) or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    fix = "" if COMPILED else "Debian: apt install gcc python3-dev"
    if where is None:
        return Finding("compiler", "ok" if COMPILED else "advice", "not found; needed only to build", fix)
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        return Finding("compiler", "ok" if COMPILED else "advice", f"{where}, but no {header}", fix)
    return Finding("compiler", "ok", where)


def java() -> Finding:
    from zenlake.spark.java_home import java_home, version_of

    try:
        home = java_home()
    except FileNotFoundError as error:
        found, _, fix = str(error).partition("; ")
        return Finding("java", "advice", f"{found}; Spark cannot run, everything else can", fix)
    return Finding("java", "ok", f"{version_of(home)} ({home})")


def spark() -> Finding:
    return package("pyspark", "advice", "needed for tables on Spark: pip install 'zenlake[spark]'")


def worker() -> Finding:
    """Check the Python of Spark workers (PYSPARK_PYTHON): it needs the same Python version and Zenlake."""
    if importlib.util.find_spec("pyspark") is None:
        return Finding("spark's python", "ok", "not checked: Spark is not installed")
    named = os.environ.get("PYSPARK_PYTHON")
    fix = f"export PYSPARK_PYTHON={sys.executable}"
    if named is None:
        taken = shutil.which("python3") or "python3"
        why = compare_versions(taken)
        if why is None:
            return Finding("spark's python", "ok", f"{taken}, from the PATH")
        found = f"{taken}, the default of Spark, {why}; reading `zenoh` fails there with DATA_SOURCE_NOT_FOUND"
        return Finding("spark's python", "advice", found, f"use zenlake.spark.session(), or {fix}")
    why = compare_versions(named)
    if why is not None:
        return Finding("spark's python", "missing", f"PYSPARK_PYTHON={named} {why}", fix)
    return Finding("spark's python", "ok", named)


def compare_versions(python: str) -> str | None:
    """Return why Spark workers cannot use this Python, or None if they can."""
    program = "import sys, zenlake; print('%d.%d' % sys.version_info[:2], zenlake.__version__)"
    try:
        result = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=30)
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    if result.returncode:
        return f"cannot import zenlake: {(result.stderr.strip().splitlines() or ['it failed'])[-1]}"
    ours = f"{sys.version_info[0]}.{sys.version_info[1]} {__version__}"
    return None if result.stdout.strip() == ours else f"has Python and zenlake {result.stdout.strip()}, expected {ours}"


def tcp_port() -> Finding:
    return port("tcp 7447", socket.SOCK_STREAM, PORT, "start a router on another port: --listen tcp/127.0.0.1:7448")


def scouting_port() -> Finding:
    return port(
        "udp 7446",
        socket.SOCK_DGRAM,
        SCOUTING,
        "only Zenoh can share this port; stop the other program, or name endpoints (-e)",
    )


def port(check: str, kind: socket.SocketKind, number: int, fix: str) -> Finding:
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind == socket.SOCK_STREAM or os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", number))
        except OSError as error:
            return Finding(check, "advice", f"cannot be bound: {error.strerror}", fix)
    return Finding(check, "ok", "free")


def multicast() -> Finding:
    """Send a datagram to the scouting group of Zenoh, on another port, and receive it by multicast loopback."""
    fix = f"scouting cannot find routers; name them (-e tcp/host:{PORT}), or allow multicast on an interface and in its firewall"
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        try:
            receiver.bind(("", 0))
            receiver.setsockopt(
                socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(GROUP), bytes(4))
            )
            receiver.settimeout(1.0)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
            sent = os.urandom(16)
            sender.sendto(sent, (GROUP, receiver.getsockname()[1]))
            received = receiver.recv(64)
        except TimeoutError:
            return Finding("multicast", "advice", f"no datagram received from {GROUP} within 1 s", fix)
        except OSError as error:
            return Finding("multicast", "advice", f"{GROUP}: {error.strerror}", fix)
    return Finding("multicast", "ok" if received == sent else "advice", f"{GROUP} works on this machine")


def handles() -> Finding:
    try:
        import resource
    except ImportError:
        return Finding("file handles", "ok", "no known limit on this platform")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{soft} (at most {hard})"
    if soft != resource.RLIM_INFINITY and soft < HANDLES:
        return Finding(
            "file handles",
            "advice",
            found,
            f"each connection of a router uses one; raise the limit: ulimit -n {min(HANDLES, hard)}",
        )
    return Finding("file handles", "ok", found)
