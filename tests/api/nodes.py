# SPDX-License-Identifier: Apache-2.0
"""Sessions for tests: on loopback, on ports that the system chooses, without multicast."""

import json
import time

import zenlake

PATIENCE = 5.0  # timeout in seconds for operations that complete immediately


def config(mode="peer", connect=None, listen=None, **more):
    made = zenlake.Config()
    made.insert_json5("mode", json.dumps(mode))
    made.insert_json5("scouting/multicast/enabled", "false")
    made.insert_json5("listen/endpoints", json.dumps([listen] if listen else []))
    if connect:
        made.insert_json5("connect/endpoints", json.dumps([connect]))
    for key, value in more.items():
        made.insert_json5(key.replace("__", "/"), json.dumps(value))
    return made


def listening(**more):
    """A session that others can connect to, and its endpoint."""
    session = zenlake.open(config(listen="tcp/127.0.0.1:0", **more))
    return session, session._node.locators[0]


def pair():
    """Two peers that are connected."""
    first, where = listening()
    return first, zenlake.open(config(connect=where))


def wait_until(condition):
    """Poll until a condition holds that has no event."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
