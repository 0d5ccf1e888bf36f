# SPDX-License-Identifier: Apache-2.0
"""Placeholder: Zenlake does not support shared memory."""

raise ModuleNotFoundError(
    "zenlake.shm: shared memory is not supported. Zenlake connects to nodes that use it over their ordinary links, and "
    "payloads can be read without a copy through the buffer protocol: memoryview(sample.payload)",
    name="zenlake.shm",
)
