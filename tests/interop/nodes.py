# SPDX-License-Identifier: Apache-2.0
"""Networks of nodes of Zenlake in this process and of eclipse-zenoh in other processes, with one interface for both."""

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.versions.environments import install
from zenlake.core.encoding import Encoding
from zenlake.core.enums import ConsolidationMode, Priority, QueryTarget, WhatAmI
from zenlake.runtime.connection_manager import Backoff
from zenlake.runtime.live_node import LiveNode, NodeConfig, open_node

HERE = Path(__file__).parent
PATIENCE = 15.0
QUICK = Backoff(0.05, 2.0, 0.5)


class Events:
    """Events of a node: lists of the kind, the entity and its arguments."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []
        self._changed = threading.Condition()

    def add(self, *event: Any) -> None:
        with self._changed:
            self.seen.append(list(event))
            self._changed.notify_all()

    def of(self, what: str, name: str) -> list[list[Any]]:
        with self._changed:
            return [event[2:] for event in self.seen if event[:2] == [what, name]]

    def wait(self, what: str, name: str, count: int = 1) -> list[list[Any]]:
        """Wait for `count` events of one kind and return them."""
        with self._changed:
            full = self._changed.wait_for(lambda: len(self._now(what, name)) >= count, PATIENCE)
            assert full, f"{count} {what} of {name} awaited, {self._now(what, name)} came"
            return self._now(what, name)

    def _now(self, what: str, name: str) -> list[list[Any]]:
        return [event[2:] for event in self.seen if event[:2] == [what, name]]


class ShellError(Exception):
    """Error: a command of a shell failed."""


class Theirs:
    """A node in its own process: the installed eclipse-zenoh, or another `implementation`.

    That is "zenlake", or a version of eclipse-zenoh with an environment in build/versions.
    """

    def __init__(
        self, mode: str, connect: tuple[str, ...] = (), listen: tuple[str, ...] = (), implementation: str = "",
        prefix: tuple[str, ...] = (), **config: Any,
    ) -> None:  # fmt: skip
        made = {"mode": mode, "connect/endpoints": list(connect), "listen/endpoints": list(listen), **config}
        self.events = Events()
        self._answers: queue.Queue[list[Any]] = queue.Queue()
        is_version = implementation not in ("", "zenlake")
        python = install(implementation) if is_version else Path(sys.executable)
        package = "zenlake" if implementation == "zenlake" else "zenoh"
        self._process = subprocess.Popen(
            [*prefix, str(python), str(HERE / "wheel_shell.py"), json.dumps(made), package],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.zid = self._answer("ready")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event[0] in ("ready", "done", "failed", "closed"):
                self._answers.put(event)
            else:
                self.events.add(*event)
        self._answers.put(["failed", "the process ended"])

    def _answer(self, word: str) -> Any:
        try:
            event = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            self._process.kill()  # a late answer would be read as the answer to the next command
            raise ShellError(f"no answer in {PATIENCE:g} s") from None
        if event[0] != word:
            raise ShellError(*event)
        return event[1] if len(event) > 1 else None

    def do(self, *words: Any, **options: Any) -> Any:
        assert self._process.stdin is not None
        if self._process.poll() is not None:
            raise ShellError("the process ended")
        self._process.stdin.write(json.dumps([*words, options] if options else words) + "\n")
        self._process.stdin.flush()
        return self._answer("done")

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.write('["close"]\n')
            self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self._process.stdout.close()


class Ours:
    """A node of Zenlake, with the same commands as the shell."""

    def __init__(self, mode: str, connect: tuple[str, ...] = (), listen: tuple[str, ...] = (), **config: Any) -> None:
        role = {"router": WhatAmI.ROUTER, "peer": WhatAmI.PEER, "client": WhatAmI.CLIENT}[mode]
        self.events = Events()
        self.node: LiveNode = open_node(NodeConfig(role, connect, listen, backoff=QUICK, **config))
        self.zid = self.node.zid[::-1].hex().lstrip("0")
        self.things: dict[str, Any] = {}

    @property
    def locators(self) -> tuple[str, ...]:
        return self.node.locators

    def do(self, word: str, *arguments: Any, **options: Any) -> Any:
        return getattr(self, word)(*arguments, **options)

    def close(self) -> None:
        self.node.close()

    def sub(self, name: str, key: str) -> None:
        def got(key: bytes, reader: Any) -> None:
            push = reader.push
            body = push.body
            about = {
                "attachment": None if body.attachment.size < 0 else body.attachment.text,
                "priority": reader.frame.priority, "stamped": body.timestamp.id.size >= 0,
                "express": push.qos & 0x10 != 0, "encoding": str(body.encoding.value) if push.is_put else None,
            }  # fmt: skip
            payload = body.payload.value if push.is_put else b""
            self.events.add("sample", name, key.decode(), "put" if push.is_put else "delete", text(payload), about)

        self.things[name] = self.node.declare_subscriber(key.encode(), got)

    def put(self, key: str, payload: str | int, **options: Any) -> None:
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        if "priority" in options:
            options["priority"] = int(Priority[options["priority"]])
        if "attachment" in options:
            options["attachment"] = options["attachment"].encode()
        if "encoding" in options:
            options["encoding"] = Encoding(options["encoding"])
        self.node.put(key.encode(), data, **{"congestion": 1, **options})

    def delete(self, key: str) -> None:
        self.node.delete(key.encode())

    def pub(self, name: str, key: str) -> None:
        publisher = self.things[name] = self.node.declare_publisher(key.encode())
        publisher.on_matching = lambda matching: self.events.add("matching", name, matching)

    def publish(self, name: str, payload: str) -> None:
        self.node.put(self.things[name].key, payload.encode())

    def matching(self, name: str) -> bool:
        return self.things[name].is_matching

    def queryable(self, name: str, key: str, manner: str, complete: bool = False) -> None:
        def asked(query: Any, reader: Any) -> None:
            body = reader.request.query
            payload = None if body.body.size < 0 else body.body.text
            self.events.add("query", name, query.key.decode(), body.parameters.text or "", payload)
            if manner == "silent":
                self.things[name + "-kept"] = query
                return
            if manner == "err":
                query.reply_err(f"no {name}".encode())
            elif manner == "del":
                query.reply_del(query.key)
            elif manner == "twice":
                query.reply(query.key, f"1 of {name}".encode())
                query.reply(query.key, f"2 of {name}".encode())
            elif manner == "big":
                query.reply(query.key, bytes(1_000_000))
            else:
                query.reply(key.encode() if b"*" in query.key else query.key, f"of {name}".encode())
            query.finish()

        self.things[name] = self.node.declare_queryable(key.encode(), asked, complete)

    def get(self, selector: str, target: str = "BEST_MATCHING", consolidation: str = "AUTO", **options: Any) -> Any:
        key, _, parameters = selector.partition("?")
        replies: list[list[Any]] = []
        done = threading.Event()

        def got(key: bytes | None, reader: Any) -> None:
            response = reader.response
            if not response.is_reply:
                replies.append(["err", response.err.payload.text])
            elif response.reply.is_put:
                assert key is not None
                replies.append(["put", key.decode(), text(response.reply.put.payload.value)])
            else:
                assert key is not None
                replies.append(["delete", key.decode(), ""])

        if "payload" in options:
            options["payload"] = options["payload"].encode()
        self.node.get(
            key.encode(), got, done.set, parameters=parameters, target=int(QueryTarget[target]),
            consolidation=ConsolidationMode[consolidation], **options,
        )  # fmt: skip
        assert done.wait(PATIENCE)
        return replies

    def querier(self, name: str, key: str) -> None:
        querier = self.things[name] = self.node.declare_querier(key.encode())
        querier.on_matching = lambda matching: self.events.add("matching", name, matching)

    def ask(self, name: str) -> Any:
        return self.get(self.things[name].key.decode())

    def token(self, name: str, key: str) -> None:
        self.things[name] = self.node.declare_token(key.encode())

    def live(self, name: str, key: str, history: bool) -> None:
        self.things[name] = self.node.declare_liveliness_subscriber(
            key.encode(), lambda key, alive: self.events.add("alive", name, key.decode(), alive), history
        )

    def who(self, key: str) -> Any:
        found: list[str] = []
        done = threading.Event()
        self.node.liveliness_get(key.encode(), lambda key: found.append(key.decode()), lambda late: done.set())
        assert done.wait(PATIENCE)
        return sorted(found)

    def undeclare(self, name: str) -> None:
        self.node.undeclare(self.things.pop(name))

    def peers(self) -> Any:
        return sorted(face.zid[::-1].hex().lstrip("0") for face in self.node.faces() if face.whatami is WhatAmI.PEER)


def text(payload: bytes) -> Any:
    return payload.decode() if len(payload) < 1000 else len(payload)


def knows(router: Ours, *keys: str) -> None:
    """Wait for a declaration on each of these keys."""

    def known() -> set[bytes]:
        return {
            key for face in router.node.faces() for ids in face.declared_keys.values() for key in list(ids.values())
        }

    until(lambda: {key.encode() for key in keys} <= known(), f"no declaration of {keys}")


def until(true: Any, what: str = "") -> None:
    """Poll until a condition holds that has no event."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
