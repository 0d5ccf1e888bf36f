# SPDX-License-Identifier: Apache-2.0
"""A module on the path of a process: it stops the process once, where a lake or a log reaches the named point.

With `itself` the process kills itself, as in a crash of a tap or of the Python of an executor. Otherwise it signals the test, which
kills them. Points of a log begin with `log `. With FAULT_SEGMENT, segments of a log are so small that their ends are reached.
"""

import os
import signal
import time

if "FAULT_POINT" in os.environ:
    _left = int(os.environ["FAULT_AFTER"])

    def _reached(point):
        global _left
        if point != os.environ["FAULT_POINT"]:
            return
        _left -= 1
        if _left >= 0:
            return
        try:
            with open(os.environ["FAULT_FILE"], "x") as file:
                file.write(point)
        except FileExistsError:
            return  # another process was stopped there
        if os.environ["FAULT_KIND"] == "itself":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)

    if os.environ["FAULT_POINT"].startswith("log "):
        from zenlake.log.disk import Disk

        Disk.fault_point = lambda self, point: _reached(f"log {point}")
    else:
        from zenlake.lake import lake, parquet_writer

        lake.fault_point = parquet_writer.fault_point = _reached

if "FAULT_SEGMENT" in os.environ:
    from zenlake.log.writer import Writer

    Writer.__init__.__kwdefaults__["segment_size"] = int(os.environ["FAULT_SEGMENT"])
