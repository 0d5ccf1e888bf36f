# SPDX-License-Identifier: Apache-2.0
"""A command ends on a signal that arrives at any instruction of its waiting loop."""

import signal
import subprocess
import sys

PROGRAM = """
import signal, sys
from zenlake.cli.network_options import until_stopped
with until_stopped() as stop:
    print("ready", flush=True)
    while not stop.wait(0.0):  # most of the time is spent inside of `wait`, not in the kernel
        pass
"""


def test_a_signal_inside_of_wait_ends_the_loop() -> None:
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "ready\n"
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0
            finally:
                process.kill()
