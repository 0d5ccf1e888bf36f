# SPDX-License-Identifier: Apache-2.0
"""Run attacks and print one line for each.

    python -m tests.hostile [--seconds N] [--scale N] [--seed N] [--together] [--reference] [--list] [--option WORD]... [NAME ...]

NAME is a part of a name in the catalogue. `--together` runs all selected attacks at the same time. `--reference` attacks the
wheel eclipse-zenoh instead of our router. `--option` is passed to `zenlake router` after the options of
the short form, as in `--option=--memory=64`.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.attacker import CATALOGUE
from tests.hostile.honest import DIRECT, REFERENCE, ROUTED
from tests.hostile.trial import SHORT, attack, is_for_group, start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--option", action="append", default=list(SHORT.options))
    parser.add_argument("--max-growth", type=int, default=SHORT.max_growth >> 20, metavar="MIB")
    parser.add_argument("--list", action="store_true", help="print the catalogue and end")
    given = parser.parse_args()
    chosen = [name for name in CATALOGUE if not given.names or any(each in name for each in given.names)]
    if given.list:
        for name in chosen:
            print(f"{name:<32}{CATALOGUE[name].about}")
        return
    if given.together:
        chosen = [name for name in chosen if not is_for_group([name])]
    failed = 0
    for names in [chosen] if given.together else [[name] for name in chosen]:
        needs = CATALOGUE[names[0]].needs
        with tempfile.TemporaryDirectory() as folder:
            victim = start(names, Path(folder), tuple(given.option), given.reference)
            try:
                if not given.together and not set(needs) <= victim.endpoints.keys():
                    continue
                operations = REFERENCE if given.reference else DIRECT if is_for_group(names) else ROUTED
                outcome = attack(victim, names, given.seconds, given.scale, given.seed, operations)
            finally:
                victim.kill()
        complaints = outcome.complaints(given.max_growth << 20)
        failed += bool(complaints)
        name = f"{len(names)} attacks" if given.together else names[0]
        print(f"{'FAIL' if complaints else 'ok':<5}{name:<28}{outcome.describe()}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
