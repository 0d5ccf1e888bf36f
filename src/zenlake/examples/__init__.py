# SPDX-License-Identifier: Apache-2.0
"""Captures to try things with, recorded with tcpdump from real Zenoh 1.10 on the loopback interface.

clean_full_sessions.pcap   two clients and a router: every kind of message, a large value in fragments, a query that fails
two_clients_queries.pcap   three clients that put and query at the same time
multicast_cooked.pcap      two peers on a multicast group

sample.pcap                half a minute of six robots and an operator, with troubles to find (docs/record_sample.py made it)
"""

import os
from collections.abc import Iterable
from importlib.resources import files

SAMPLE = "sample.pcap"


def captures() -> list[str]:
    """The paths of the captures that show the protocol, without the sample of the report."""
    return sorted(
        str(file) for file in files(__name__).iterdir() if file.name.endswith(".pcap") and file.name != SAMPLE
    )


def sample() -> str:
    """The path of the capture that shows the report."""
    return str(files(__name__) / SAMPLE)


def or_sample(paths: Iterable[str]) -> list[str]:
    """The paths; `sample.pcap` is the one that comes with Zenlake, where there is no file of that name."""
    return [sample() if path == SAMPLE and not os.path.exists(path) else path for path in paths]
