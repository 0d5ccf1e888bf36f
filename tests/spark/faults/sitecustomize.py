# SPDX-License-Identifier: Apache-2.0
"""On the path of a job's processes: where the lake says that it has reached the named point, this one stops for good.

With `worker` the process kills itself, as a crash of an executor's Python; else it tells the test, which kills all of them.
"""

import os
import signal
import time

if "FAULT_POINT" in os.environ:
    from zenlake.lake import layout

    _left = int(os.environ["FAULT_AFTER"])

    def _reached(point):
        global _left
        if point == os.environ["FAULT_POINT"]:
            _left -= 1
            if _left < 0:
                with open(os.environ["FAULT_FILE"], "w") as file:
                    file.write(point)
                if os.environ["FAULT_KIND"] == "worker":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(600)

    layout.reached = _reached
    from zenlake.lake import commit, staging

    commit.reached = staging.reached = _reached
