# SPDX-License-Identifier: Apache-2.0
"""Live nodes: the event loop, links, scouting and timers that run the network layer."""
