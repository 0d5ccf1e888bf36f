# SPDX-License-Identifier: Apache-2.0
"""Refuse machines and interpreters that Zenlake does not run on, at import, with one line. Do without what only Linux has."""

import subprocess
import sys

import pytest

from zenlake._platform_check import OLDEST_PYTHON, check_platform


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_little_endian_posix_systems_are_accepted(platform):
    check_platform("little", platform, OLDEST_PYTHON)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("byteorder", "big", "Zenlake does not run on big-endian processors: "),
        ("platform", "win32", "Zenlake does not run on Windows: "),
        ("platform", "emscripten", "Zenlake does not run in WebAssembly: "),
        ("version_info", (3, 10, 13), "Zenlake needs Python 3.11 or newer, and this is Python 3.10: "),
    ],
)
def test_importing_zenlake_elsewhere_fails_with_one_line(attribute, value, reason):
    program = f"import os, typing, sys; sys.{attribute} = {value!r}; import zenlake"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {reason}")


# An interpreter that pretends to run on macOS. Other libraries are imported before, because they have files of this machine.
MACOS = """
import fcntl, importlib, os, pkgutil, select, signal, socket, sys, zenlake
REMOVED = {
    select: ("epoll", "EPOLL"),
    os: ("posix_fallocate", "posix_fadvise", "sched_", "O_DIRECT", "O_TMPFILE", "memfd_create", "eventfd", "pidfd_open", "splice",
         "copy_file_range", "sendfile", "getrandom", "setns", "unshare", "POSIX_FADV_"),
    socket: ("SO_BINDTODEVICE", "SO_PRIORITY", "SO_MARK", "SO_PEERCRED", "SO_DOMAIN", "SO_PROTOCOL", "AF_NETLINK", "AF_PACKET",
             "TCP_USER_TIMEOUT", "TCP_QUICKACK", "SOCK_NONBLOCK", "SOCK_CLOEXEC", "IP_RECVERR", "MSG_ERRQUEUE", "MSG_NOSIGNAL"),
    fcntl: ("F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_OFD_", "F_ADD_SEALS", "F_SEAL_"),
    signal: ("sigtimedwait", "sigwaitinfo", "SIGRTMIN", "pidfd_send_signal"),
}

def load():
    for module in pkgutil.walk_packages(zenlake.__path__, "zenlake."):
        if not module.name.endswith("__main__") and "pyspark" not in module.name:
            importlib.import_module(module.name)

load()
for name in [name for name in sys.modules if name.removeprefix("cython.cimports.").partition(".")[0] == "zenlake"]:
    del sys.modules[name]
for module, beginnings in REMOVED.items():
    for name in [name for name in dir(module) if name.startswith(beginnings)]:
        delattr(module, name)
sys.platform = "darwin"
import zenlake
load()
with socket.create_server(("127.0.0.1", 0)) as free:
    address = "tcp/127.0.0.1:%d" % free.getsockname()[1]
config = "{listen: {endpoints: ['%s']}, scouting: {multicast: {enabled: false}}}" % address
with zenlake.open(zenlake.Config.from_json5(config)) as one:
    other = zenlake.Config.from_json5("{mode: 'client', connect: {endpoints: ['%s']}}" % address)
    with zenlake.open(other) as two, two.declare_queryable("key", lambda query: query.reply("key", b"answer")):
        for _ in range(1000):
            replies = [bytes(reply.ok.payload) for reply in one.get("key", timeout=5)]
            if replies:
                break
    print(replies)
"""


def test_macos_has_what_the_network_needs():
    done = subprocess.run(
        [sys.executable, "-c", MACOS], capture_output=True, text=True, timeout=100, env={"ZENLAKE_PURE": "1"}
    )
    assert (done.returncode, done.stdout) == (0, "[b'answer']\n"), done.stderr
