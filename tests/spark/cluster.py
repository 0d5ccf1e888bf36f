# SPDX-License-Identifier: Apache-2.0
"""A real Spark cluster on loopback, from the installed PySpark and by a script of Spark."""

import os
import re
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from zenlake.spark.java_home import java_home

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"

# Run a command in its own mount namespace, with an empty file system in the place of a folder.
PRIVATE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && cd "$0" && exec "$@"']


@contextmanager
def started(arguments, ready, folder, private=False, **environment):
    """Run a process of Spark, from its ready line (whose match is yielded) until the end of the block."""
    namespace = [*PRIVATE, str(folder)] if private else []
    environment = {
        **os.environ, "JAVA_HOME": java_home(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder), "PYSPARK_PYTHON": sys.executable, **environment,
    }  # fmt: skip
    process = subprocess.Popen(
        [*namespace, str(SPARK_CLASS), *arguments], env=environment, cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    # A pipe without a reader blocks its writer.
    drain = threading.Thread(target=process.stdout.read, daemon=True)
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = re.search(ready, line)
            if found:
                break
        else:
            raise AssertionError("".join(lines))
        drain.start()
        yield found
    finally:
        process.kill()
        process.wait(30)
        if drain.is_alive():
            drain.join(30)
        process.stdout.close()


@contextmanager
def cluster(folder, private=False, **environment):
    """Run a master and two workers of one core each. Yield its address.

    Private workers see an empty file system of their own instead of the folder.
    """
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with started(master, r"Starting Spark master at (spark://\S+)", folder) as found:
        worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
                  "--webui-port", "0", found[1]]  # fmt: skip
        registered = "Successfully registered with master"
        with ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(started(worker, registered, folder, private, **environment))
            yield found[1]
