# SPDX-License-Identifier: Apache-2.0
"""Two communicating sessions, one of them in the namespace `ns/a`. Run with either package: `python -m
tests.api.namespace_program`."""

import importlib
import json
import sys
import threading
import time

PATIENCE = 10.0


class End:
    """A session that records what it receives, with the keys as it sees them."""

    def __init__(self, package, mode, endpoint, **more):
        self.zenoh = importlib.import_module(package)
        config = self.zenoh.Config()
        where = "listen" if mode == "router" else "connect"
        settings = {"mode": mode, f"{where}/endpoints": [endpoint], "scouting/multicast/enabled": False, **more}
        for name, value in settings.items():
            config.insert_json5(name, json.dumps(value))
        self.session = self.zenoh.open(config)
        self.seen = []
        self._ended = threading.Event()
        self._declared = [
            self.session.declare_subscriber("**", self._sample, allowed_origin=self.zenoh.Locality.REMOTE),
            self.session.declare_queryable("**", self._answer),
            self.session.liveliness().declare_subscriber(
                "**", lambda sample: self.seen.append(["token", str(sample.key_expr)]), history=True
            ),
        ]

    def _sample(self, sample):
        if str(sample.key_expr).endswith("end"):
            self._ended.set()
        else:
            self.seen.append(["sample", str(sample.key_expr)])

    def _answer(self, query):
        if str(query.key_expr).startswith("@"):
            return
        self.seen.append(["query", str(query.key_expr)])
        if "*" not in str(query.key_expr):
            query.reply(query.key_expr, b"answer")

    def talk(self, keys, asked, token):
        """Put, query and declare a token as soon as the other session has its subscriber and queryable."""
        remote = self.zenoh.Locality.REMOTE
        for probe in (
            self.session.declare_publisher(keys[0], allowed_destination=remote),
            self.session.declare_querier(asked[0], allowed_destination=remote),
        ):
            end = time.monotonic() + PATIENCE
            while not probe.matching_status.matching:
                assert time.monotonic() < end, "no subscriber"
                time.sleep(0.02)
            probe.undeclare()
        self._declared.append(self.session.liveliness().declare_token(token))
        for key in keys:
            self.session.put(key, b"value")
        for key in asked:
            replies = list(self.session.get(key, timeout=PATIENCE, allowed_destination=remote))
            self.seen += [["reply", str(reply.ok.key_expr)] for reply in replies if reply.ok]

    def end(self, key):
        """Signal the other side that no more samples follow."""
        self.session.put(key, b"")

    def wait(self):
        """Wait until the other session has sent everything."""
        assert self._ended.wait(PATIENCE), self.seen


INNER = (["own/x"], ["asked"], "alive")
OUTER = (["ns/a/x", "ns/a", "other", "ns/*/y", "*/a/w", "ns/a/p/q"], ["ns/a/asked", "ns/**", "elsewhere"], "ns/a/token")


def main(package, role, endpoint):
    if role == "inner":
        end = End(package, "client", endpoint, namespace="ns/a")
    else:
        end = End(package, "router", endpoint)
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "talk\n":
            end.talk(*(INNER if role == "inner" else OUTER))
            end.end("end" if role == "inner" else "ns/a/end")
        elif line == "seen\n":
            end.wait()
            print(json.dumps(end.seen), flush=True)
    end.session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
