# SPDX-License-Identifier: Apache-2.0
"""Example captures, recorded with tcpdump from real Zenoh 1.10 on the loopback interface.

clean_full_sessions.pcap   two clients and a router: every message type, a fragmented payload, a failing query
two_clients_queries.pcap   three clients that put and query concurrently
multicast_cooked.pcap      two peers on a multicast group

sample.pcap                half a minute of six robots and an operator, with faults (made by docs/record_sample.py)
"""

import os
from collections.abc import Iterable
from importlib.resources import files

SAMPLE = "sample.pcap"


def captures() -> list[str]:
    """Return the paths of the protocol examples, without the sample of the report."""
    return sorted(
        str(file) for file in files(__name__).iterdir() if file.name.endswith(".pcap") and file.name != SAMPLE
    )


def sample() -> str:
    """Return the path of the sample capture of the report."""
    return str(files(__name__) / SAMPLE)


def or_sample(paths: Iterable[str]) -> list[str]:
    """Replace `sample.pcap` by the path of the included sample, unless a file of that name exists."""
    return [sample() if path == SAMPLE and not os.path.exists(path) else path for path in paths]
