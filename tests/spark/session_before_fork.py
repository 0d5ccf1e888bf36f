# SPDX-License-Identifier: Apache-2.0
"""A daemon of PySpark in which an imported module opens a session. All workers are forked from it."""

from pyspark.daemon import manager

import zenlake
from tests.api.nodes import config

session = zenlake.open(config())
subscriber = session.declare_subscriber("worker/**")

if __name__ == "__main__":
    manager()
