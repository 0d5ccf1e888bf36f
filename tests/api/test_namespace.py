# SPDX-License-Identifier: Apache-2.0
"""`namespace`: a prefix of every key of a session, visible to all other nodes. Compared with eclipse-zenoh at either end."""

import json
import socket
import subprocess
import sys

import pytest

from zenlake.network.namespace import Namespace


@pytest.mark.parametrize(
    ("key", "own"),
    [  # as 1.10.2 delivers them to a session in the namespace ns/a
        ("ns/a/x", "x"), ("ns/a", None), ("other", None), ("ns/*/y", "y"), ("**", "**"), ("*/a/w", "w"), ("ns/a/p/q", "p/q"),
        ("ns/**", "**"), ("ns", None), ("ns/b/x", None), ("n$*/a/x", "x"), ("@/1/router", "@/1/router"),
    ],
)  # fmt: skip
def test_keys_without_the_namespace_prefix(key, own):
    assert Namespace(b"ns/a").strip_prefix(key.encode()) == (None if own is None else own.encode())


@pytest.mark.parametrize("key", [b"x", b"**", b"@/1/x"])
def test_without_a_namespace_keys_are_unchanged(key):
    assert Namespace().strip_prefix(Namespace().add_prefix(key)) == key


def free_endpoint():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"tcp/127.0.0.1:{taken.getsockname()[1]}"


class Process:
    def __init__(self, *arguments):
        command = [sys.executable, "-m", "tests.api.namespace_program", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def seen(self):
        self.say("seen")
        return sorted(json.loads(self.process.stdout.readline()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.mark.interop
@pytest.mark.parametrize(("inner", "outer"), [("zenlake", "zenoh"), ("zenoh", "zenlake")])
def test_both_ends_receive_the_expected_samples(inner, outer):
    endpoint = free_endpoint()
    with Process(outer, "outer", endpoint) as router, Process(inner, "inner", endpoint) as client:
        router.say("talk")
        own = client.seen()  # it ends after everything that the other session sent
        client.say("talk")
        assert [each for each in own if each[0] != "token"] == [
            ["query", "**"], ["query", "asked"],
            ["sample", "p/q"], ["sample", "w"], ["sample", "x"], ["sample", "y"],
        ]  # fmt: skip
        assert ["token", "token"] in own
        outside = router.seen()
        assert ["sample", "ns/a/own/x"] in outside
        assert ["token", "ns/a/alive"] in outside
        assert ["query", "ns/a/asked"] in outside  # its own
        assert ["reply", "ns/a/asked"] in outside
        assert ["reply", "elsewhere"] not in outside
        assert ["reply", "asked"] in client.seen()
