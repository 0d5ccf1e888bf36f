# SPDX-License-Identifier: Apache-2.0
"""Faster replacements of standard library modules. Each module states its reason and its assumptions."""
