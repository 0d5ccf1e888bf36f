# SPDX-License-Identifier: Apache-2.0
"""Captures to try things with, recorded with tcpdump from real Zenoh 1.10 on the loopback interface.

clean_full_sessions.pcap   two clients and a router: every kind of message, a large value in fragments, a query that fails
two_clients_queries.pcap   three clients that put and query at the same time
multicast_cooked.pcap      two peers on a multicast group
"""

from importlib.resources import files


def captures() -> list[str]:
    """Their paths."""
    return sorted(str(file) for file in files(__name__).iterdir() if file.name.endswith(".pcap"))
