# SPDX-License-Identifier: Apache-2.0
"""A process that attacks."""

import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import ModuleType

from tests.hostile import batches, connections, declarations, graphs, messages
from tests.hostile.catalogue import CATALOGUE, Steps, Target

FAMILIES = (connections, declarations, messages, batches, graphs)
"""The modules that fill the catalogue."""


def names_in(family: ModuleType) -> list[str]:
    """Return the names of the attacks of one module."""
    return [name for name, attack in CATALOGUE.items() if attack.family == family.__name__]


@dataclass
class Summary:
    """What an attacker did."""

    steps: int = 0
    restarts: int = 0
    error: str = ""


def run(names: list[str], target: Target, rate: float, control: Connection) -> None:
    """Run attacks in turns until a word comes over `control`, close the connections, and send the summary."""
    summary = Summary()
    pause = 1 / rate if rate else 0.0
    running: dict[str, Steps | None] = dict.fromkeys(names)
    over: set[str] = set()
    control.send("ready")
    while not control.poll(pause if len(over) < len(names) else 0.05):
        for name in names:
            if name in over:
                continue
            steps = running[name]
            try:
                if steps is None:
                    steps = running[name] = CATALOGUE[name].steps(target)
                next(steps)
                summary.steps += 1
            except StopIteration:
                over.add(name)
            except OSError as error:
                summary.restarts += 1
                summary.error = repr(error)
                running[name] = None
                if len(names) == 1:
                    target.close()
                time.sleep(0.01)
    control.recv()
    target.close()
    control.send(summary)
    control.close()


class Attacker:
    """A process that attacks. Processes are forked from a server that has the modules loaded.

    Args:
        names: Attacks of the catalogue, which run in turns.
        endpoints: Address of each listener of the node.
        scale: Amount of the attack; 1.0 is the short form.
        seed: Source of random choices.
        rate: Steps a second, or 0 for as many as possible.
    """

    context = multiprocessing.get_context("forkserver")

    def __init__(
        self, names: list[str], endpoints: dict[str, str], scale: float = 1.0, seed: int = 0, rate: float = 0.0
    ) -> None:
        self.context.set_forkserver_preload(["tests.hostile.attacker", "zenlake.wire.batch_reader"])
        self._control, other = self.context.Pipe()
        target = Target(endpoints, scale, seed)
        self._process = self.context.Process(target=run, args=(names, target, rate, other), daemon=True)
        self._process.start()
        other.close()
        assert self._control.poll(20), "the attacker did not start"
        self._control.recv()

    def stop(self, patience: float = 1.0) -> Summary:
        """End the attack: all connections close at once."""
        self._control.send("stop")
        try:
            if not self._control.poll(patience):
                return Summary(error="blocked in a call")
            summary = self._control.recv()
            assert isinstance(summary, Summary)
            return summary
        except EOFError:
            return Summary(error="the attacker ended with an error")
        finally:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._control.close()
