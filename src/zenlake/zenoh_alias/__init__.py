# SPDX-License-Identifier: Apache-2.0
"""A folder for `PYTHONPATH` that provides the module `zenoh`. `zenlake run` sets it for a program and its child processes."""
