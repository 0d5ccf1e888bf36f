# SPDX-License-Identifier: Apache-2.0
"""Run commands in parallel and show one line of progress for each.

    python3 .ci/step.py TITLE COMMAND... [::: TITLE COMMAND...]

The output of a command goes to a file in build/steps/ and is printed if the command fails. On a terminal one line shows the seconds
and the newest line of output. Elsewhere a line is printed every ten seconds. A command that ends within a second prints nothing.
Lines that begin with `zenlake` are meant for the user, and are always printed.
This file needs only Python's standard library, because it also creates the virtual environment.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

OLDEST = (3, 11)
LOGS = Path("build/steps")
LAST_LINES = 30


class Step:
    def __init__(self, title, command):
        self.title = title
        self.log = LOGS / (re.sub(r"\W+", "-", title.lower()).strip("-") + ".log")
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.started = time.monotonic()
        self.done = False

    def seconds(self):
        return time.monotonic() - self.started

    def newest(self):
        """Return the newest line of the output that is short enough to read: compilers print long ones."""
        lines = self.log.read_text(errors="replace")[-8000:].splitlines()
        return next((line.strip() for line in reversed(lines) if 0 < len(line.strip()) < 100), "")

    def messages(self):
        return [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("zenlake ")]


def separate(arguments):
    """Split the arguments at `:::` into titles and commands."""
    steps = [[]]
    for argument in arguments:
        if argument == ":::":
            steps.append([])
        else:
            steps[-1].append(argument)
    return [Step(title, command) for title, *command in steps]


def main():
    if sys.version_info[:2] < OLDEST:
        return "Zenlake needs Python {}.{} or newer, and {} is {}.{}; try: make PYTHON=python3.13".format(
            *OLDEST, sys.executable, *sys.version_info
        )
    LOGS.mkdir(parents=True, exist_ok=True)
    steps = separate(sys.argv[1:])
    terminal = sys.stdout.isatty()
    reported = time.monotonic()
    failed = []
    while not all(step.done for step in steps):
        time.sleep(0.1)
        line = "\r\033[K" if terminal else ""
        for step in steps:
            if not step.done and step.process.poll() is not None:
                step.done = True
                if step.process.returncode:
                    failed.append(step)
                    continue
                ended = [f"✓ {step.title}  {step.seconds():.0f} s"] if step.seconds() >= 1 else []
                if ended or step.messages():
                    print(line + "\n".join([*ended, *step.messages()]), flush=True)
        running = [step for step in steps if not step.done and step.seconds() >= 1]
        text = " | ".join(f"{step.title}  {step.seconds():.0f} s  {step.newest()}".rstrip() for step in running)
        if terminal:
            print(line + text[: shutil.get_terminal_size().columns - 1], end="" if running else line, flush=True)
        elif running and time.monotonic() - reported >= 10:
            reported = time.monotonic()
            print(text, flush=True)
    for step in failed:
        print(*step.log.read_text(errors="replace").splitlines()[-LAST_LINES:], sep="\n", file=sys.stderr)
        print(f"{step.title}: failed; the whole output is in {step.log}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        os._exit(130)
