# SPDX-License-Identifier: Apache-2.0
"""A program imports only the modules that it uses."""

import subprocess
import sys

import pytest

from zenlake.wire.raw_memory import COMPILED

PROGRAM = """
import sys
import zenlake
config = zenlake.Config()
config.insert_json5("listen/endpoints", '["tcp/127.0.0.1:0"]')
config.insert_json5("scouting/multicast/enabled", "false")
with zenlake.open(config) as session:
    session.put("key", b"value")
print(*sys.modules)
"""

ASKING = """
import sys
import zenlake
zenlake.open
import zenlake.api.scouting_service
print(*sys.modules)
"""

HEAVY = {
    "aioquic", "asyncio", "datetime", "decimal", "difflib", "duckdb", "encodings.idna", "hashlib", "ipaddress", "lz4",
    "numpy", "pathlib", "pyarrow", "pyspark", "rich", "ssl", "typer", "websockets",
}  # fmt: skip


pytestmark = pytest.mark.skipif(not COMPILED, reason="Cython's shadow and what picks the .py files load more")


def loaded_by(program):
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert not answer.stderr
    return set(answer.stdout.split())


def test_a_session_imports_only_used_modules():
    loaded = loaded_by(PROGRAM)
    assert "zenlake.api.session" in loaded
    assert not HEAVY & loaded
    assert not {"zenlake.link.tls", "zenlake.link.quic", "zenlake.api.arrow", "zenlake.api.scouting_service"} & loaded
    assert not {"zenlake.api.query", "zenlake.api.liveliness", "zenlake.core.selector"} & loaded


def test_scouting_starts_before_the_session_is_imported():
    loaded = loaded_by(ASKING)
    assert "zenlake.runtime.scouting" in loaded
    assert not HEAVY & loaded
    assert not {"json", "zenlake.api.session", "zenlake.runtime.live_node", "zenlake.runtime.event_loop"} & loaded
