# SPDX-License-Identifier: Apache-2.0
"""Clocks at the ends of a chain of routers: `python hop_clocks.py ENDPOINT...`, with the endpoint of each router.

A client of the first router publishes samples with timestamp stacks. A client of each router receives them. Prints the
publisher's ZenohID, and for each sample the times when it was published and received, in nanoseconds since 1970.
"""

import json
import sys
import time
from typing import Any

import zenoh

COUNT, PAUSE, PATIENCE = 200, 0.005, 20.0


def open_client(endpoint: str) -> zenoh.Session:
    config = zenoh.Config()
    settings = {"mode": "client", "connect/endpoints": [endpoint], "scouting/multicast/enabled": False}
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    return zenoh.open(config)


def main() -> None:
    endpoints = sys.argv[1:]
    received: list[dict[int, int]] = [{} for _ in endpoints]
    sessions = [open_client(endpoint) for endpoint in endpoints]
    subscribers = []
    for session, times in zip(sessions, received, strict=True):

        def got(sample: Any, times: dict[int, int] = times) -> None:
            times[int(sample.payload.to_string())] = time.time_ns()

        subscribers.append(session.declare_subscriber("hops/test", got))
    sender = open_client(endpoints[0])
    points = zenoh.TimestampInstrumentationBuilder().set_send(True).set_route(True).build()

    def wait_for(number: int) -> bool:
        return all(number in times for times in received)

    deadline = time.monotonic() + PATIENCE
    while not wait_for(-1) and time.monotonic() < deadline:  # without a stack: until all subscribers are known
        sender.put("hops/test", "-1")
        time.sleep(0.1)
    sent = []
    for number in range(COUNT):
        sent.append(time.time_ns())
        sender.put("hops/test", str(number), timestamp_instrumentation=points)
        time.sleep(PAUSE)
    while not wait_for(COUNT - 1) and time.monotonic() < deadline:
        time.sleep(0.01)
    rows = [[sent[number], *(times.get(number) for times in received)] for number in range(COUNT)]
    print(json.dumps({"sender": str(sender.zid()), "rows": rows}))
    for session in (*sessions, sender):
        session.close()


main()
