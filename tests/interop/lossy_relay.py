# SPDX-License-Identifier: Apache-2.0
"""A relay of UDP datagrams that drops some: `python -m tests.interop.lossy_relay LISTEN TARGET SHARE`, as host:port.

It prints READY. Each client has its own socket to the target. The relay drops a share of the datagrams to the target that carry
publications, but none with an `end`. After the line `account`, it prints as JSON what it dropped and forwarded.
"""

import json
import random
import re
import select
import socket
import sys
from collections import Counter

TAG = re.compile(rb"<([a-z0-9]+)/([a-z]+)/(\d+)/")
SO_RCVBUFFORCE = 33
IP_PAYLOAD = 1500 - 20 - 8  # bytes of a datagram that needs no fragments


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def publications(datagram: bytes) -> list[tuple[str, str, int]]:
    """Return the publications in a datagram: publisher, kind and number. A payload may repeat its tag."""
    tags = [(name.decode(), kind.decode(), int(number)) for name, kind, number in TAG.findall(datagram)]
    return [tag for tag in tags if tag[1] == "status"] + list({tag for tag in tags if tag[1] != "status"})


def main() -> None:
    listen, target, share = address(sys.argv[1]), address(sys.argv[2]), float(sys.argv[3])
    chance = random.Random(24)
    front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    front.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    front.bind(listen)
    upstream: dict[tuple[str, int], socket.socket] = {}
    clients: dict[socket.socket, tuple[str, int]] = {}
    dropped: dict[str, dict[str, list[int]]] = {}
    frames: Counter[str] = Counter()
    large: Counter[str] = Counter()
    print("READY", flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin, front, *clients], [], [])
        if front in ready:
            data, client = front.recvfrom(65535)
            if client not in upstream:
                upstream[client] = link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
                link.connect(target)
                clients[link] = client
            found = publications(data)
            names = {name for name, _, _ in found}
            if found and not any(kind == "end" for _, kind, _ in found) and chance.random() < share:
                for name, kind, number in found:
                    dropped.setdefault(name, {}).setdefault(kind, []).append(number)
                frames.update(names)
            else:
                if len(data) > IP_PAYLOAD:
                    large.update(names)
                upstream[client].send(data)
        for link in ready:
            if link in clients:
                front.sendto(link.recv(65535), clients[link])
        if sys.stdin in ready:
            line = sys.stdin.readline().strip()
            if line == "account":
                print(json.dumps({"frames": frames, "large": large, "dropped": dropped}), flush=True)
            elif line in ("", "close"):
                return


if __name__ == "__main__":
    main()
