# SPDX-License-Identifier: Apache-2.0
"""Lets Spark find `format("zenoh")` by itself: it imports every top-level module whose name begins with pyspark_.

Spark does so once per session, whether or not the format is used, and a module that raises here breaks the session. So
nothing heavy is imported: the source brings along what it needs when it is asked for something.
"""

from zenlake.spark.zenoh_source import ZenohSource as DefaultSource

__all__ = ["DefaultSource"]
