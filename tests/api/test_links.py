# SPDX-License-Identifier: Apache-2.0
"""`session.info.links()`: the description of each link equals the one of eclipse-zenoh."""

import json
import socket
import subprocess
import sys

import pytest

import zenlake
from tests.api.nodes import config, wait_until

ALL, SOME = (0, 7), (1, 3)
RELIABLE, BEST_EFFORT = zenlake.Reliability.RELIABLE, zenlake.Reliability.BEST_EFFORT
QOS = "transport/unicast/qos/enabled"

CASES = {
    "tcp": ("tcp", "", "", True, ALL, RELIABLE),
    "udp": ("udp", "", "", True, ALL, BEST_EFFORT),
    "no QoS": ("tcp", "", "", False, None, None),
    "priorities": ("tcp", "", "?prio=1-3", True, SOME, RELIABLE),
    "priorities, best effort": ("tcp", "", "?prio=1-3;rel=0", True, SOME, BEST_EFFORT),
    "of the listener alone": ("tcp", "?rel=0", "", True, ALL, RELIABLE),
}

# Run both ends in one process, with either module, and print the description of the link as JSON.
PROGRAM = """
import importlib, json, sys, time
module, endpoint, listens, connects, qos = json.loads(sys.argv[1])
zenoh = importlib.import_module(module)
def opened(name, where):
    config = zenoh.Config()
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", "[]")
    config.insert_json5(name, json.dumps([where]))
    config.insert_json5("transport/unicast/qos/enabled", json.dumps(qos))
    return zenoh.open(config)
first, second = opened("listen/endpoints", endpoint + listens), opened("connect/endpoints", endpoint + connects)
while not (first.info.links() and second.info.links()):
    time.sleep(0.01)
found = [session.info.links()[0] for session in (first, second)]
print(json.dumps([[link.mtu, link.priorities, str(link.reliability), link.is_streamed] for link in found]))
second.close(), first.close()
"""


@pytest.mark.parametrize("case", CASES)
def test_a_link_has_its_priorities_and_reliability(case):
    protocol, listens, connects, qos, priorities, reliability = CASES[case]
    with zenlake.open(config(listen=f"{protocol}/127.0.0.1:0{listens}", **{QOS: qos})) as first:
        where = first._node.locators[0].partition("?")[0]
        with zenlake.open(config(connect=where + connects, **{QOS: qos})) as second:
            for session in (first, second):
                wait_until(session.info.links)
                link = session.info.links()[0]
                assert (link.priorities, link.reliability) == (priorities, reliability)
                assert link.mtu <= 65535


@pytest.mark.interop
@pytest.mark.parametrize("case", CASES)
def test_a_link_has_the_description_of_the_real_one(case):
    protocol, listens, connects, qos, *_ = CASES[case]
    descriptions = []
    for module in ("zenoh", "zenlake"):
        with socket.socket(type=socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM) as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"{protocol}/127.0.0.1:{free.getsockname()[1]}"
        arguments = json.dumps([module, endpoint, listens, connects, qos])
        made = subprocess.run([sys.executable, "-c", PROGRAM, arguments], capture_output=True, check=True, timeout=60)
        descriptions.append(json.loads(made.stdout))
    assert descriptions[0] == descriptions[1]
