# SPDX-License-Identifier: Apache-2.0
"""Tap: record traffic of the network into a wire log."""
