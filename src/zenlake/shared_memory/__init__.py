# SPDX-License-Identifier: Apache-2.0
"""Shared memory between nodes of one host, as eclipse-zenoh 1.10 uses it. See `docs/design/shm.md`."""
