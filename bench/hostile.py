# SPDX-License-Identifier: Apache-2.0
"""Latency of honest clients beside an attacker: the 99th percentile of round trips through a router, with and without attack.

Three processes: the router, the honest clients, which ping each other in pairs, and the attacker (`tests/hostile`). Turns with
and without attack alternate, so that other load of the machine affects both. The ratio is 1 / p99 during the attack to 1 / p99
without it: 0.5 means that the attack doubles the latency.

    python -m bench hostile
"""

import sys

from tests.hostile.attacker import Attacker

from bench.blocked import Pairs, late
from bench.crowd import partner
from bench.report import Ratio, Result, show

PAIRS, TURNS, SECONDS = 4, 5, 1.0
RATE = 300.0  # steps per second: a flood that takes a whole core would measure the scheduler of the machine
ATTACKS = (
    "half-handshake-tcp",
    "churn-sessions",
    "interests-current",
    "declarations-subscribers",
    "declaration-churn-tokens",
    "puts-long",
    "wildcard-put-double",
    "storm-put",
    "queries-pending",
    "fragments-lanes",
    "link-states-chain",
)
QUICK = ("churn-sessions", "interests-current", "puts-long", "wildcard-put-double")


def measure(role: str, attack: str, turns: int) -> list[tuple[float, float]]:
    """Return for each pair the 99th percentile of its round trips, during the attack and without it."""
    router, port = partner(role)
    pairs = Pairs(int(port), PAIRS)
    free: list[list[float]] = [[] for _ in range(PAIRS)]
    beside: list[list[float]] = [[] for _ in range(PAIRS)]
    try:
        for turn in range(turns):
            pairs.pings(0.1)
            for total, took in zip(free, pairs.pings(SECONDS), strict=True):
                total += took
            attacker = Attacker([attack], {"tcp": f"tcp/127.0.0.1:{port}"}, seed=turn, rate=RATE)
            try:
                pairs.pings(0.05)  # pings that waited while the attacker started are not counted
                for total, took in zip(beside, pairs.pings(SECONDS), strict=True):
                    total += took
            finally:
                attacker.stop()
    finally:
        pairs.close()
        router.communicate()
    return [(late(with_it), late(without)) for with_it, without in zip(beside, free, strict=True)]


def run(quick: bool) -> list[Result]:
    results = []
    for attack in QUICK if quick else ATTACKS:
        for role, whose in (("ours", ""),) if quick else (("ours", ""), ("theirs", ", wheel as router")):
            found = measure(role, attack, 1 if quick else TURNS)
            name = f"router, 1 / p99 of others during the attack {attack}{whose}"
            ratios = [Ratio(1 / one, 1 / two) for one, two in found]
            results.append(Result(name, "no attack", ratios, 0.5 if role == "ours" else None))
    return results


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
