# SPDX-License-Identifier: Apache-2.0
"""Queries and replies of eclipse-zenoh, recorded by its own program: a line of JSON for each query.

    python wheel_asking.py answer ENDPOINT    replies on ask/** as the last chunk of the key says, until its standard input closes
    python wheel_asking.py ask ENDPOINT       sends the queries of its standard input, one after the other

A queryable prints [key, parameters, asked, [when each reply or error left]], an asker [selector, asked, [[kind, when it came]],
ended]; times are nanoseconds since 1970.
"""

import json
import os
import signal
import sys
import time

import zenoh


def say(*words):
    print(json.dumps(words), flush=True)


def answer(session):
    kept = []

    def asked(query):
        came = time.time_ns()
        key, parameters, left = str(query.key_expr), str(query.parameters), []
        manner = key.rpartition("/")[2]
        if manner == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if manner == "silent":
            kept.append(query)
            say(key, parameters, came, left)
            return
        with query:
            for number in range(int(manner) if manner.isdigit() else 0):
                time.sleep(0.003)
                left.append(time.time_ns())
                query.reply(query.key_expr, f"{number}")
            if manner == "err":
                left.append(time.time_ns())
                query.reply_err("no")
        say(key, parameters, came, left)

    session.declare_queryable("ask/**", asked)
    say("ready")
    sys.stdin.read()
    os._exit(0)  # stored queries would get a reply at the end


def ask(session):
    say("ready")
    for line in sys.stdin:
        selector, timeout = json.loads(line)
        began = time.time_ns()
        replies = session.get(selector, timeout=timeout, consolidation=zenoh.ConsolidationMode.NONE)
        came = [["reply" if reply.ok is not None else "error", time.time_ns()] for reply in replies]
        say(selector, began, came, time.time_ns())


config = zenoh.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", json.dumps([sys.argv[2]]))
with zenoh.open(config) as opened:
    {"answer": answer, "ask": ask}[sys.argv[1]](opened)
