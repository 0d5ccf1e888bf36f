# SPDX-License-Identifier: Apache-2.0
"""Timestamp stacks along a chain: `python stack_program.py MODE PACKAGE...`, with one node for each package.

The first and the last node are clients, the others are of MODE, connected in a row. For each received sample, query and
reply, it prints the records as point and number of the node, and whether their times increase.
"""

import importlib
import json
import socket
import sys
import threading
import time
from typing import Any

PATIENCE = 10.0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def open_node(package: str, mode: str, listen: list[str], connect: list[str]) -> Any:
    zenoh = importlib.import_module(package)
    config = zenoh.Config()
    settings = {
        "mode": mode, "listen/endpoints": listen, "connect/endpoints": connect, "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False, "scouting/delay": 0,
    }  # fmt: skip
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    return zenoh.open(config)


def main() -> None:
    mode, *packages = sys.argv[1:]
    where: list[str] = []
    middle = []
    for package in packages[1:-1]:
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        middle.append(open_node(package, mode, [endpoint], where[-1:]))
        where.append(endpoint)
    nodes = [
        open_node(packages[0], "client", [], where[:1]), *middle, open_node(packages[-1], "client", [], where[-1:])
    ]  # fmt: skip
    names = {str(node.zid()): str(number) for number, node in enumerate(nodes)}
    first, last = nodes[0], nodes[-1]
    builder = importlib.import_module(packages[0]).TimestampInstrumentationBuilder
    points = builder().set_send(True).set_route(True).set_receive(True).build()
    done = threading.Event()

    def show(name: str, message: Any) -> None:
        records = message.timestamp_stack.records
        stamps = [record.timestamp() for record in records]
        texts = [
            str(getattr(record.point, "name", record.point)).rpartition(".")[2].lower() + names[str(stamp.get_id())]
            for record, stamp in zip(records, stamps, strict=True)
        ]
        times = [stamp.get_time() for stamp in stamps]
        print(name, " ".join(texts), "increasing" if times == sorted(times) else times, flush=True)

    def got(sample: Any) -> None:
        if sample.timestamp_stack is not None:
            show("sample", sample)
            done.set()

    def answer(query: Any) -> None:
        show("query", query)
        query.reply("q", "1")

    last.declare_subscriber("k", got)
    last.declare_queryable("q", answer)
    deadline = time.monotonic() + PATIENCE
    while not done.is_set() and time.monotonic() < deadline:
        first.put("k", "1", timestamp_instrumentation=points)
        done.wait(0.2)
    for reply in first.get("q", timestamp_instrumentation=points, timeout=PATIENCE):
        show("reply", reply.ok)
    for node in reversed(nodes):
        node.close()


main()
