# SPDX-License-Identifier: Apache-2.0
"""A session of ours in a multicast group, in a process of its own so that it can live in another network namespace.

`python ours_member.py CONFIG` (JSON, a key of Zenoh's configuration each): prints samples on `back/**`, publishes on `to/x`
and on a declared `to/y` for each line `again`, and closes after any other line.
"""

import json
import sys

import zenlake

LARGE = "large " * 4000


def main() -> None:
    config = zenlake.Config()
    for key, value in json.loads(sys.argv[1]).items():
        config.insert_json5(key, json.dumps(value))
    with zenlake.open(config) as session:

        def report(sample: zenlake.Sample) -> None:
            text = sample.payload.to_string()
            print("GOT", sample.key_expr, sample.kind, "large" if text == LARGE else text, flush=True)

        session.declare_subscriber("back/**", report)
        publisher = session.declare_publisher("to/y")
        print("READY", session.zid(), flush=True)
        while sys.stdin.readline() == "again\n":
            session.put("to/x", "small")
            publisher.put(LARGE)
    print("CLOSED", flush=True)


main()
