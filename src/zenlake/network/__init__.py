# SPDX-License-Identifier: Apache-2.0
"""Network layer: declarations, routing and queries of a node, without sockets or clocks."""
