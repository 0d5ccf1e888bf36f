# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing: `python -m fuzz.guided [TARGET ...] [--seconds N]`, also `make fuzz`.

atheris (libFuzzer) instruments the uncompiled modules, whose source is that of the compiled ones. Inputs that reach new code
are kept in `build/fuzz/NAME`. With `--keep`, the small ones are copied to `fuzz/corpora/NAME`.
`make asan` runs these inputs on the compiled modules, with the address sanitizer and the undefined behaviour sanitizer.
"""

import argparse
import gc
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

from fuzz.engine import TracebackHandler

ROOT = Path(__file__).parent.parent
SOURCES = str(ROOT / "src" / "zenlake")
CORPORA = Path(__file__).parent / "corpora"
LIMITS = ["-max_len=4096", "-timeout=120", "-rss_limit_mb=4096", "-print_final_stats=1"]
MAX_KEPT = 40  # inputs of one run


def main() -> None:
    from fuzz.__main__ import TARGETS

    parser = argparse.ArgumentParser(prog="python -m fuzz.guided", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", choices=[*TARGETS, []], help="targets to run; default: all"
    )
    parser.add_argument("--seconds", type=int, default=60, help="time for each target; default: 60")
    parser.add_argument("--keep", action="store_true", help="copy small inputs that reached new code to fuzz/corpora")
    options = parser.parse_args()
    environment = {**os.environ, "ZENLAKE_PURE": "1"}
    failed = []
    for name in options.targets or TARGETS:
        found = ROOT / "build" / "fuzz" / name
        seeds = ROOT / "build" / "fuzz" / f"{name}.seeds"
        for folder in (found, seeds):
            folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fuzz.guided_target", name]
        print(f"{name}: {options.seconds} s", flush=True)
        limits = [*LIMITS, f"-max_total_time={options.seconds}", f"-artifact_prefix={found.parent}/{name}-"]
        result = subprocess.run(
            [*command, str(found), str(seeds), str(CORPORA / name), *limits], env=environment, cwd=ROOT
        )
        if result.returncode:
            failed.append(name)
        elif options.keep:
            keep(name, found)
    if failed:
        sys.exit(
            f"failed: {', '.join(failed)}; run an input again with: python -m fuzz --target NAME --file build/fuzz/NAME-..."
        )


def keep(name: str, found: Path) -> None:
    """Copy MAX_KEPT inputs of all sizes that reached new code to the repository."""
    folder = CORPORA / name
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(found.iterdir(), key=lambda path: path.stat().st_size)
    for path in paths[:: len(paths) // MAX_KEPT + 1]:
        (folder / path.name).write_bytes(path.read_bytes())


def read_corpus(name: str) -> list[bytes]:
    """Return the inputs of a target that the repository holds."""
    folder = CORPORA / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def run(name: str, arguments: list[str]) -> None:
    """Run libFuzzer on one target. The second argument is the folder for the target's own corpus."""
    import atheris

    target = importlib.import_module(f"fuzz.{name}")
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(SOURCES):
            atheris.instrument_func(function)
    seeds = Path(arguments[1])
    if seeds.suffix == ".seeds":
        for number, data in enumerate(target.CORPUS):
            (seeds / str(number)).write_bytes(data)
    Path(arguments[2]).mkdir(parents=True, exist_ok=True)
    log = TracebackHandler()

    def check(data: bytes) -> None:
        target.check(data)
        log.check()

    atheris.Setup([sys.argv[0], *arguments], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
