# SPDX-License-Identifier: Apache-2.0
"""Conversion between a session's batches and Arrow tables."""

from zenlake.columns.decoder import Decoder
from zenlake.columns.encoder import Encoder
from zenlake.columns.schemas import TABLES, select_schema

__all__ = ["TABLES", "Decoder", "Encoder", "select_schema"]
