# SPDX-License-Identifier: Apache-2.0
"""Conversion between a session's batches and Arrow tables."""

from zenlake.columns.decode import Decoder
from zenlake.columns.encode import Encoder
from zenlake.columns.schemas import TABLES, chosen

__all__ = ["TABLES", "Decoder", "Encoder", "chosen"]
