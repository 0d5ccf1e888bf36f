# SPDX-License-Identifier: Apache-2.0
"""A session of ours that finds others by multicast: `python ours_open.py ADDRESS INTERFACE`.

Prints its id, and the ids of the peers that it is connected to as soon as it is open; ends when it reads a line.
"""

import json
import sys

import zenlake


def main() -> None:
    config = zenlake.Config()
    config.insert_json5("scouting/multicast/address", json.dumps(sys.argv[1]))
    config.insert_json5("scouting/multicast/interface", json.dumps(sys.argv[2]))
    with zenlake.open(config) as session:
        print("OPEN", session.zid(), *session.info.peers_zid(), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
