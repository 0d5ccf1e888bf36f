# SPDX-License-Identifier: Apache-2.0
"""`scout` of eclipse-zenoh: `python wheel_scouting.py ADDRESS INTERFACE` prints each HELLO until it reads a line."""

import json
import sys

import zenoh


def main() -> None:
    config = zenoh.Config()
    config.insert_json5("scouting/multicast/address", json.dumps(sys.argv[1]))
    config.insert_json5("scouting/multicast/interface", json.dumps(sys.argv[2]))
    seen = set()

    def report(hello: zenoh.Hello) -> None:
        if str(hello.zid) not in seen:
            seen.add(str(hello.zid))
            print("HELLO", hello.zid, hello.whatami, *hello.locators, flush=True)

    scout = zenoh.scout(report, what="router|peer", config=config)
    sys.stdin.readline()
    scout.stop()


main()
