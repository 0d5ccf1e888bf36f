# SPDX-License-Identifier: Apache-2.0
"""A session's batches as Arrow tables, and Arrow tables as messages."""

from zenlake.columns.decode import Decoder
from zenlake.columns.encode import Encoder
from zenlake.columns.schemas import TABLES, chosen

__all__ = ["TABLES", "Decoder", "Encoder", "chosen"]
