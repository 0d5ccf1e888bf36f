# SPDX-License-Identifier: Apache-2.0
"""Run the targets. `--target batch --hex 2500...` runs one input again."""

import argparse
import importlib
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from fuzz.engine import TracebackHandler, mutate
from fuzz.guided import read_corpus
from zenlake.wire.raw_memory import COMPILED

# How many inputs each target gets of every hundred that `--count` says.
TARGETS = {
    "batch": 100,
    "columns": 10,
    "network": 20,
    "scouting": 20,
    "framing": 2,
    "linkstate": 20,
    "auth": 20,
    "references": 1,
    "explain": 2,
    "keyexpr": 20,
    "capture": 1,
    "tcp": 1,
    "segment": 1,
    "node": 1,
    "peer": 1,
    "modes": 1,
    "websocket": 1,
    "payloads": 5,
    "settings": 20,
    "reference": 20,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=sys.modules["fuzz"].__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="how many mutated batches (other targets: fewer)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=TARGETS, help="only this one, with all of the count")
    parser.add_argument("--hex", help="only this input, against --target")
    parser.add_argument("--file", type=Path, help="only the input in this file, against --target")
    asked = parser.parse_args()
    if asked.hex is not None or asked.file is not None:
        data = bytes.fromhex(asked.hex) if asked.file is None else asked.file.read_bytes()
        importlib.import_module(f"fuzz.{asked.target or 'batch'}").check(data)
        return
    print(f"compiled: {'yes' if COMPILED else 'no'}, seed {asked.seed}")
    for name in [asked.target] if asked.target else TARGETS:
        count = asked.count if asked.target else max(asked.count * TARGETS[name] // 100, 1)
        started = time.monotonic()
        run(name, count, asked.seed)
        print(
            f"{name:10} {count:>9} inputs in {time.monotonic() - started:6.1f} s, none against the invariant",
            flush=True,
        )


def run(name: str, count: int, seed: int) -> None:
    target = importlib.import_module(f"fuzz.{name}")
    random = Random(f"{name}/{seed}")
    with closing(TracebackHandler()) as log:
        run_inputs(name, target, random, count, log)


def run_inputs(name: str, target: Any, random: Random, count: int, log: TracebackHandler) -> None:
    for data in [*target.CORPUS, *read_corpus(name)]:
        target.check(data)
        log.check()
    for i in range(count):
        data = mutate(random, target.CORPUS)
        try:
            target.check(data)
            log.check()
        except BaseException:
            print(f"input {i} of {name}: python -m fuzz --target {name} --hex {data.hex()}", file=sys.stderr)
            raise


if __name__ == "__main__":
    main()
