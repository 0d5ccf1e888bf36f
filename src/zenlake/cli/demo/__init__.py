# SPDX-License-Identifier: Apache-2.0
"""The `zenlake demo` command and the programs that it starts."""
