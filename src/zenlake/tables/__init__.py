# SPDX-License-Identifier: Apache-2.0
"""The tables as users see them, without a JVM: `zenlake.read` gives Arrow."""

from zenlake.tables.read import batches, read

__all__ = ["batches", "read"]
