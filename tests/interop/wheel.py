# SPDX-License-Identifier: Apache-2.0
"""A session of eclipse-zenoh in its own process: `python wheel.py CONFIG`, where CONFIG is JSON with keys of the
configuration of Zenoh.

It opens a session and prints READY (or FAILED and the reason). It sends each sample on `to/**` back on `back/to/**` with the
same payload and priority (best effort if the key requests it). It closes after a line or the end of its input.
"""

import json
import sys

import zenoh

LIGHT = "to/best-effort"
QUIET = {
    "scouting/multicast/enabled": False,
    "scouting/delay": 0,  # which a router waits for, also without scouting
    "scouting/gossip/enabled": False,
    "transport/shared_memory/enabled": False,
    "connect/timeout_ms": 0,
    "connect/exit_on_failure": True,
}


def main() -> None:
    config = zenoh.Config()
    for key, value in (QUIET | json.loads(sys.argv[1])).items():
        config.insert_json5(key, json.dumps(value))
    try:
        session = zenoh.open(config)
    except zenoh.ZError as error:
        print("FAILED", str(error).splitlines()[0], flush=True)
        return

    light = session.declare_publisher(f"back/{LIGHT}", reliability=zenoh.Reliability.BEST_EFFORT)

    def echo(sample: zenoh.Sample) -> None:
        if str(sample.key_expr) == LIGHT:
            light.put(sample.payload)
        else:
            block = zenoh.CongestionControl.BLOCK
            key = f"back/{sample.key_expr}"
            session.put(key, sample.payload, congestion_control=block, priority=sample.priority)

    session.declare_subscriber("to/**", echo)
    print("READY", session.zid(), flush=True)
    sys.stdin.readline()
    session.close()
    print("CLOSED", flush=True)


if __name__ == "__main__":
    main()
