# SPDX-License-Identifier: Apache-2.0
"""One trial: honest clients alone, then beside an attack, then while the node cleans up; then SIGTERM during an attack."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.attacker import CATALOGUE, Attacker, Summary
from tests.hostile.honest import DIRECT, ROUTED, Honest, Wait
from tests.hostile.victim import Victim, start_peer, start_router, start_wheel

MIB = 1 << 20
MAX_WAIT = 1.0
"""Seconds that an honest operation may take during an attack. The limit grows with `Outcome.slowdown`."""
LOADED = 5.0
"""An operation may also take this many times as long as it took at most before the attack."""
MAX_SLOWDOWN = 20.0
MAX_EXIT = 5.0
"""Seconds between SIGTERM and the end of the process."""
MAX_LOG_LINES = 500
BASELINE = 0.25
AGAIN = 0.2
"""Seconds of the second attack, during which SIGTERM comes."""


@dataclass(frozen=True)
class Form:
    """How long and how large an attack is, and what memory the node may take for it.

    Attributes:
        seconds: Duration of the attack.
        scale: Amount of the attack.
        options: Options of `zenlake router`.
        max_growth: Bytes that resident memory may grow.
    """

    seconds: float
    scale: float
    options: tuple[str, ...]
    max_growth: int


SMALL_LIMITS = {
    "link_buffers": "256KiB",
    "partial_messages": "4MiB",
    "transmit_queue": "8MiB",
    "control_backlog": "1MiB",
    "key_ids": "1MiB",
    "declarations": "24MiB",
    "interests": "512KiB",
    "queries": "256KiB",
    "routes": "1MiB",
    "link_states": "256KiB",
}
TINY = "256KiB"
"""The limit of the resource that an attack is after: a second suffices to reach it."""


def limit_options(tiny: str = "") -> tuple[str, ...]:
    """Return the options of `zenlake router` that set small limits, one of them tiny."""
    limits = SMALL_LIMITS | ({tiny: TINY} if tiny else {})
    return ("--memory", "64", *(word for name, size in limits.items() for word in ("--limit", f"{name}={size}")))


SHORT = Form(
    0.8,
    1.0,
    limit_options(),
    96 * MIB,  # all neighbours together, and half as much for the allocator and for calls that run
)
"""For `make test`. Limits are small, so that a second suffices to reach them."""
LONG = Form(20.0, 5.0, ("--memory", "512"), 1024 * MIB)
"""For `make soak`."""


@dataclass
class Outcome:
    """Measurements of one trial."""

    baseline: dict[str, Wait]
    waits: dict[str, Wait]
    before: int
    peak: int
    after: int
    summary: Summary
    slowdown: float = 1.0
    """How many times as long as its processor time the busiest thread of the node took, because the machine is loaded."""
    exit_code: int | None = None
    exit_seconds: float = 0.0
    log: str = ""
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def growth(self) -> int:
        """Bytes that the peak of memory lies above the memory before the attack."""
        return self.peak - self.before

    @property
    def refusals(self) -> dict[str, float]:
        """Counters of refusals that are not 0, by cause."""
        found = {}
        for name, count in self.metrics.items():
            cause = re.fullmatch(r'zenlake_router_refused_total\{cause="(.*)"\}', name)
            if cause and count:
                found[cause[1]] = count
        return found

    def describe(self) -> str:
        """Return one line for a table."""
        waits = " ".join(
            f"{name} {wait.seconds:.2f}{'!' if wait.error else ''}" for name, wait in sorted(self.waits.items())
        )
        memory = f"memory {self.before // MIB} +{self.growth // MIB} MiB, then {self.after // MIB}"
        end = f"exit {self.exit_code} after {self.exit_seconds:.1f} s, {self.log.count(chr(10))} lines of log"
        tracebacks = self.log.count("Traceback")
        end += f", {tracebacks} tracebacks" if tracebacks else ""
        refusals = {cause: int(count) for cause, count in self.refusals.items()}
        end += f"; counters {refusals}" if refusals else ""
        steps = f"{self.summary.steps} steps, {self.summary.restarts} restarts {self.summary.error}"
        return f"{waits}; slowdown {self.slowdown:.1f}; {memory}; {end}; {steps}"

    def complaints(self, max_growth: int) -> list[str]:
        """Return what a node must not do under attack and did."""
        found = []
        for name, wait in self.waits.items():
            usual = self.baseline[name].seconds if name in self.baseline else 0.0
            limit = max(MAX_WAIT * self.slowdown, LOADED * usual)
            if wait.error:
                found.append(f"{name} failed after {wait.seconds:.2f} s: {wait.error}")
            elif wait.seconds > limit:
                found.append(f"{name} took {wait.seconds:.2f} s; the limit is {limit:.2f} s")
        if self.growth > max_growth:
            found.append(f"memory grew by {self.growth // MIB} MiB; the limit is {max_growth // MIB} MiB")
        if self.exit_code != 0:
            found.append(f"exit code {self.exit_code} within {MAX_EXIT:g} s after SIGTERM; expected 0")
        if "Traceback" in self.log:
            found.append(f"a traceback in the log:\n{self.log[-3000:]}")
        if (lines := self.log.count("\n")) > MAX_LOG_LINES:
            found.append(f"{lines} lines of log; the limit is {MAX_LOG_LINES}")
        return found


def start(names: list[str], folder: Path, options: tuple[str, ...], reference: bool = False) -> Victim:
    """Start the node that these attacks need: our router, a peer of ours, or the reference router."""
    needs = {each for name in names for each in CATALOGUE[name].needs}
    if reference:
        return start_wheel(folder, needs)
    return start_peer(folder) if is_for_group(names) else start_router(folder, needs, options)


def is_for_group(names: list[str]) -> bool:
    """Return whether these attacks need a member of a multicast group."""
    return "group" in CATALOGUE[names[0]].needs


def check(names: list[str], folder: Path, form: Form = SHORT, seed: int = 0) -> None:
    """Run one trial and fail with all complaints."""
    refusal = CATALOGUE[names[0]].refusal if len(names) == 1 and form is SHORT else ""
    victim = start(names, folder, limit_options(refusal) if refusal else form.options)
    try:
        operations = DIRECT if is_for_group(names) else ROUTED
        outcome = attack(victim, names, form.seconds, form.scale, seed, operations)
    finally:
        victim.kill()
    complaints = outcome.complaints(form.max_growth)
    if refusal and not outcome.refusals.get(f"limit reached: {refusal}"):
        complaints.append(f"no refusal of {refusal} is counted")
    assert not complaints, "\n".join([", ".join(names), *complaints, outcome.describe()])


def attack(
    victim: Victim,
    names: list[str],
    seconds: float,
    scale: float = 1.0,
    seed: int = 0,
    operations: Sequence[str] = ROUTED,
) -> Outcome:
    """Attack a node for some seconds, let it clean up, and end it.

    Args:
        victim: The node. It has ended on return.
        names: Attacks of the catalogue, which run in turns.
        seconds: Duration of the attack.
        scale: Amount of the attack; 1.0 is the short form.
        seed: Source of random choices.
        operations: Honest operations to measure.
    """
    honest = Honest(victim.endpoints, tuple(operations))
    try:
        time.sleep(BASELINE)
        honest.settle()
        baseline = honest.longest()
        before = victim.memory
        victim.reset_peak()
        times = victim.processor_times()
        began = time.monotonic()
        attacker = Attacker(names, victim.endpoints, scale, seed)
        time.sleep(seconds)
        metrics = read_metrics(victim)
        summary = attacker.stop()
        honest.settle()
        outcome = Outcome(baseline, honest.longest(began), before, victim.peak, victim.memory, summary, metrics=metrics)
        outcome.slowdown = slowdown(times, victim.processor_times())
    finally:
        honest.close()
    attacker = Attacker(names, victim.endpoints, scale, seed + 1)
    time.sleep(AGAIN)
    began = time.monotonic()
    outcome.exit_code = victim.terminate(MAX_EXIT * outcome.slowdown)
    outcome.exit_seconds = time.monotonic() - began
    attacker.stop()
    outcome.log = victim.log
    return outcome


def slowdown(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> float:
    """Return the share of time that the busiest thread lost to other processes of the machine, as a factor of at least 1."""
    busiest, waiting = 1, 0
    for thread, (ran, waited) in after.items():
        ran_before, waited_before = before.get(thread, (0, 0))
        if ran - ran_before > busiest:
            busiest, waiting = ran - ran_before, waited - waited_before
    return min(MAX_SLOWDOWN, 1 + waiting / busiest)


def read_metrics(victim: Victim) -> dict[str, float]:
    """Return the figures of the node, or nothing if it has no page or does not answer."""
    if not victim.metrics_port:
        return {}
    try:
        return victim.metrics()
    except OSError:
        return {}
