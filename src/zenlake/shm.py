# SPDX-License-Identifier: Apache-2.0
"""Zenlake has no shared memory; this module exists to say so."""

raise ModuleNotFoundError(
    "zenlake.shm: shared memory is not supported. Zenlake talks to nodes that use it over their ordinary links, and "
    "payloads are read without copying through the buffer protocol: memoryview(sample.payload)",
    name="zenlake.shm",
)
