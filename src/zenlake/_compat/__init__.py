# SPDX-License-Identifier: Apache-2.0
"""Modules that depend on the interpreter or replace parts of the standard library. Each states its reason and its assumptions."""
