# SPDX-License-Identifier: Apache-2.0
"""A node in its own process, driven by commands: `python wheel_shell.py CONFIG [PACKAGE]`.

PACKAGE is `zenoh`, of any version since 1.0, or `zenlake`. It reads one JSON list per line, [word, arguments...], and answers
each with a line ["done", ...]. Events are lines [what, name, ...], where `name` is the one that was given to the entity when it was
declared.
"""

import importlib
import json
import sys
import threading
from contextlib import nullcontext
from typing import Any

PACKAGE = sys.argv[2] if len(sys.argv) > 2 else "zenoh"
zenoh: Any = importlib.import_module(PACKAGE)
ConsolidationMode, QueryTarget, SampleKind = zenoh.ConsolidationMode, zenoh.QueryTarget, zenoh.SampleKind

QUIET = {
    "scouting/multicast/enabled": False,
    "scouting/delay": 0,  # which a router waits for, also without scouting
    "transport/shared_memory/enabled": False,
    "connect/timeout_ms": 3000,
    "connect/exit_on_failure": False,
}
writing = threading.Lock()


def say(*words: object) -> None:
    with writing:
        print(json.dumps(words), flush=True)


def text(payload: zenoh.ZBytes) -> object:
    data = payload.to_bytes()
    return data.decode() if len(data) < 1000 else len(data)


class Shell:
    def __init__(self, config: dict[str, object]) -> None:
        made = zenoh.Config()
        for key, value in (QUIET | config).items():
            made.insert_json5(key, json.dumps(value))
        self.session = zenoh.open(made)
        self.things: dict[str, object] = {}

    def sub(self, name: str, key: str) -> None:
        def got(sample: zenoh.Sample) -> None:
            kind = "put" if sample.kind == SampleKind.PUT else "delete"
            stamped = sample.timestamp is not None
            attachment = None if sample.attachment is None else sample.attachment.to_string()
            about = {"attachment": attachment, "encoding": str(sample.encoding), "priority": str(sample.priority)}
            about |= {"express": sample.express, "stamped": stamped, "congestion": str(sample.congestion_control)}
            say("sample", name, str(sample.key_expr), kind, text(sample.payload), about)

        self.things[name] = self.session.declare_subscriber(key, got)

    def put(self, key: str, payload: str | int, **options: object) -> None:
        data = payload if isinstance(payload, str) else bytes(payload)
        if "priority" in options:
            options["priority"] = getattr(zenoh.Priority, str(options["priority"]))
        if options.pop("blocks", False):
            options["congestion_control"] = zenoh.CongestionControl.BLOCK
        self.session.put(key, data, **options)

    def delete(self, key: str) -> None:
        self.session.delete(key)

    def pub(self, name: str, key: str, listens: bool = True) -> None:
        publisher = self.things[name] = self.session.declare_publisher(key)
        if listens:  # since 1.5
            self.things[name + "-matching"] = publisher.declare_matching_listener(
                lambda status: say("matching", name, status.matching)
            )

    def publish(self, name: str, payload: str) -> None:
        self.things[name].put(payload)

    def matching(self, name: str) -> bool:
        return self.things[name].matching_status.matching

    def queryable(self, name: str, key: str, manner: str, complete: bool = False) -> None:
        def asked(query: zenoh.Query) -> None:
            with query if hasattr(query, "__enter__") else nullcontext():  # since 1.2
                body = None if query.payload is None else query.payload.to_string()
                say("query", name, str(query.key_expr), str(query.parameters), body)
                if manner == "err":
                    query.reply_err(f"no {name}")
                elif manner == "del":
                    query.reply_del(query.key_expr)
                elif manner == "twice":
                    query.reply(query.key_expr, f"1 of {name}")
                    query.reply(query.key_expr, f"2 of {name}")
                elif manner == "big":
                    query.reply(query.key_expr, bytes(1_000_000))
                elif manner == "silent":
                    self.things[name + "-kept"] = query
                    threading.Event().wait(1.0)
                else:
                    query.reply(str(key) if "*" in str(query.key_expr) else query.key_expr, f"of {name}")

        self.things[name] = self.session.declare_queryable(key, asked, complete=complete)

    def get(self, selector: str, target: str = "BEST_MATCHING", consolidation: str = "AUTO", **options: object) -> list:
        replies = self.session.get(
            selector,
            target=getattr(QueryTarget, target),
            consolidation=getattr(ConsolidationMode, consolidation),
            **options,
        )
        return [answer(reply) for reply in replies]

    def advanced_pub(self, name: str, key: str) -> None:
        ext = importlib.import_module(f"{PACKAGE}.ext")
        self.things[name] = ext.declare_advanced_publisher(
            self.session, key, cache=ext.CacheConfig(max_samples=10), publisher_detection=True,
            sample_miss_detection=ext.MissDetectionConfig(heartbeat=0.2),
        )  # fmt: skip

    def advanced_sub(self, name: str, key: str) -> None:
        ext = importlib.import_module(f"{PACKAGE}.ext")

        def got(sample: Any) -> None:
            say("sample", name, str(sample.key_expr), "put", text(sample.payload), {})

        self.things[name] = ext.declare_advanced_subscriber(
            self.session, key, got, history=ext.HistoryConfig(detect_late_publishers=True),
            recovery=ext.RecoveryConfig(heartbeat=True), subscriber_detection=True,
        )  # fmt: skip

    def querier(self, name: str, key: str, listens: bool = True) -> None:
        querier = self.things[name] = self.session.declare_querier(key)
        if listens:
            self.things[name + "-matching"] = querier.declare_matching_listener(
                lambda status: say("matching", name, status.matching)
            )

    def ask(self, name: str) -> list:
        return [answer(reply) for reply in self.things[name].get()]

    def token(self, name: str, key: str) -> None:
        self.things[name] = self.session.liveliness().declare_token(key)

    def live(self, name: str, key: str, history: bool) -> None:
        def got(sample: zenoh.Sample) -> None:
            say("alive", name, str(sample.key_expr), sample.kind == SampleKind.PUT)

        self.things[name] = self.session.liveliness().declare_subscriber(key, got, history=history)

    def who(self, key: str) -> list:
        return sorted(str(reply.ok.key_expr) for reply in self.session.liveliness().get(key, timeout=5))

    def undeclare(self, name: str) -> None:
        extra = self.things.pop(name + "-matching", None)
        if extra is not None:
            extra.undeclare()
        self.things.pop(name).undeclare()

    def peers(self) -> list:
        return sorted(str(zid) for zid in self.session.info.peers_zid())


def answer(reply: zenoh.Reply) -> list:
    if reply.ok is None:
        return ["err", text(reply.err.payload)]
    kind = "put" if reply.ok.kind == SampleKind.PUT else "delete"
    return [kind, str(reply.ok.key_expr), text(reply.ok.payload)]


def main() -> None:
    shell = Shell(json.loads(sys.argv[1]))
    say("ready", str(shell.session.zid()))
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        if word == "close":
            break
        try:
            say("done", getattr(shell, word)(*arguments, **options))
        except Exception as error:
            say("failed", repr(error))
    shell.session.close()
    say("closed")


main()
