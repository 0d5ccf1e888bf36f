# SPDX-License-Identifier: Apache-2.0
"""From the network into the wire log."""
