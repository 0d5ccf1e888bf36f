# SPDX-License-Identifier: Apache-2.0
"""A session of ours that finds others by multicast and publishes at once: `python ours_first_put.py ADDRESS INTERFACE TIMES`.

It prints the number of nodes that sent back each of its first samples (see `tests/interop/wheel.py`).
"""

import json
import sys

import zenlake


def main() -> None:
    address, interface, times = sys.argv[1:]
    config = zenlake.Config()
    config.insert_json5("scouting/multicast/address", json.dumps(address))
    config.insert_json5("scouting/multicast/interface", json.dumps(interface))
    for number in range(int(times)):
        with zenlake.open(config) as session:
            echoes = session.declare_subscriber("back/**")
            session.put("to/first", str(number))
            count = 0
            try:
                while count < 2:
                    assert str(echoes.recv(2.0).payload) == str(number)
                    count += 1
            except TimeoutError:
                pass
            print("ECHOES", count, flush=True)


if __name__ == "__main__":
    main()
