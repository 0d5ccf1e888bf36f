# SPDX-License-Identifier: Apache-2.0
"""Two nodes of eclipse-zenoh in one process that communicate over each of the given endpoints: `python wheel_talk.py ENDPOINT...`

The second node publishes COUNT samples, on a declared key and on others. `published` also returns them. The first node receives
all of them before the process prints DONE.
"""

import json
import sys
import threading

COUNT = 3000


def published(which: int) -> list[tuple[str, bytes]]:
    """Return the samples of one endpoint, in order. One in a thousand has several fragments."""
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
