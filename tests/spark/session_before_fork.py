# SPDX-License-Identifier: Apache-2.0
"""pyspark's daemon as it is when something that it imports opens a session: all workers are forked from it."""

from pyspark.daemon import manager

import zenlake
from tests.api.nodes import config

session = zenlake.open(config())
subscriber = session.declare_subscriber("worker/**")

if __name__ == "__main__":
    manager()
