# SPDX-License-Identifier: Apache-2.0
"""A node with shared memory in its own process: `python shm_node.py zenlake|zenoh CONFIG`. One program for both libraries.

It reads one JSON list per line, [word, arguments...], and answers each with ["done", value] or ["failed", why]. A subscriber prints
["sample", key, size, kind, whether the bytes are right], where kind is "shm" or "raw".
"""

import faulthandler
import importlib
import json
import logging
import os
import signal
import sys
import threading
from typing import Any

writing = threading.Lock()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the wheel logs to stdout


def say(*words: object) -> None:
    with writing:
        print(json.dumps(words), file=answers, flush=True)


def pattern(size: int) -> bytes:
    return (bytes((i * 7 + size) & 255 for i in range(256)) * (size // 256 + 1))[:size]


class Node:
    def __init__(self, library: Any, config: dict[str, object]) -> None:
        made = library.Config()
        quiet = {"scouting/multicast/enabled": False, "scouting/delay": 0, "connect/timeout_ms": 10000}
        for key, value in (quiet | config).items():
            made.insert_json5(key, json.dumps(value))
        self.library = library
        self.session = library.open(made)
        self.things: list[Any] = []
        self.provider: Any = None

    def sub(self, key: str) -> None:
        def got(sample: Any) -> None:
            data = bytes(sample.payload)
            view = sample.payload.as_shm()
            right = data == pattern(len(data)) and (view is None or bytes(view) == data)
            say("sample", str(sample.key_expr), len(data), "raw" if view is None else "shm", right)

        self.things.append(self.session.declare_subscriber(key, got))

    def queryable(self, key: str, size: int) -> None:
        def asked(query: Any) -> None:
            data = bytes(query.payload)
            kind = "raw" if query.payload.as_shm() is None else "shm"
            say("sample", str(query.key_expr), len(data), kind, data == pattern(len(data)))
            with query:
                query.reply(query.key_expr, pattern(size)) if size else query.reply_err(pattern(5000))

        self.things.append(self.session.declare_queryable(key, asked))

    def get(self, key: str, size: int) -> list[object]:
        replies = list(self.session.get(key, payload=pattern(size), timeout=10))
        bodies = [bytes((reply.ok or reply.err).payload) for reply in replies]
        return [[len(body), body == pattern(len(body))] for body in bodies]

    def alloc(self, size: int) -> None:
        self.provider = self.library.shm.ShmProvider.default_backend(size)

    def shm(self, key: str, size: int, count: int = 1) -> None:
        policy = self.library.shm.BlockOn(self.library.shm.GarbageCollect())
        block = self.library.CongestionControl.BLOCK
        data = pattern(size)
        for _ in range(count):
            buffer = self.provider.alloc(size, policy)
            buffer[:] = data
            self.session.put(key, buffer, congestion_control=block)

    def put(self, key: str, size: int, count: int = 1) -> None:
        data = pattern(size)
        for _ in range(count):
            self.session.put(key, data, congestion_control=self.library.CongestionControl.BLOCK)

    def flood(self, key: str, size: int) -> None:
        """Publish until the process is killed."""
        threading.Thread(target=self.shm, args=(key, size, 1 << 60), daemon=True).start()

    def collect(self) -> int:
        return int(self.provider.garbage_collect())

    def is_full_after_collect(self, size: int) -> bool:
        """Return whether a buffer of this size can be allocated: whether all others have come back."""
        self.provider.garbage_collect()
        try:
            self.provider.alloc(size)
        except self.library.ZError:
            return False
        return True

    def transports(self) -> list[bool]:
        return [each.is_shm for each in self.session.info.transports()]


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    library = importlib.import_module(sys.argv[1])
    importlib.import_module(f"{sys.argv[1]}.shm")
    logging.basicConfig(level=logging.INFO)
    library.init_log_from_env_or("error")
    node = Node(library, json.loads(sys.argv[2]))
    say("ready")
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        if word == "close":
            break
        try:
            say("done", getattr(node, word)(*arguments))
        except Exception as error:
            say("failed", repr(error))
    node.session.close()
    node.provider = None
    say("closed")
    if library.__name__ == "zenoh":
        os._exit(0)  # its threads would call into an interpreter that is ending


main()
