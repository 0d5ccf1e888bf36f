# SPDX-License-Identifier: Apache-2.0
"""Two real Zenoh nodes in a process of their own that talk over each of the endpoints given: `python wheel_talk.py ENDPOINT...`

The second publishes, on a declared key and on others, COUNT samples that `published` also returns; the first receives them
all before the process says DONE.
"""

import json
import sys
import threading

COUNT = 3000


def published(which: int) -> list[tuple[str, bytes]]:
    """Samples of the talk over one endpoint, in order; one in a thousand takes several fragments."""
    samples = []
    for i in range(COUNT):
        payload = b"%d " % i + b"x" * (i % 300 if i % 1000 != 999 else 200_000 + i)
        samples.append((f"talk/{which}/declared" if i % 2 else f"talk/{which}/plain/{i % 5}", payload))
    return samples


def main(endpoints: list[str]) -> None:
    import zenoh

    def opened(**values: object) -> zenoh.Session:
        config = zenoh.Config()
        quiet = {"scouting/multicast/enabled": False, "scouting/gossip/enabled": False}
        for key, value in {**quiet, "transport/shared_memory/enabled": False, **values}.items():
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)

    block = zenoh.CongestionControl.BLOCK
    for which, endpoint in enumerate(endpoints):
        listener = opened(mode="peer", **{"listen/endpoints": [endpoint]})
        seen, all_seen = [], threading.Event()

        def receive(sample: zenoh.Sample, seen: list[int] = seen, all_seen: threading.Event = all_seen) -> None:
            seen.append(len(sample.payload))
            if len(seen) == COUNT:
                all_seen.set()

        listener.declare_subscriber(f"talk/{which}/**", receive)
        speaker = opened(mode="client", **{"connect/endpoints": [endpoint]})
        declared = speaker.declare_publisher(f"talk/{which}/declared", congestion_control=block)
        for key, payload in published(which):
            if key.endswith("/declared"):
                declared.put(payload)
            else:
                speaker.put(key, payload, congestion_control=block)
        if not all_seen.wait(60):
            print("FAILED", len(seen), flush=True)
        speaker.close()
        listener.close()
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
