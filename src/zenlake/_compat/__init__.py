# SPDX-License-Identifier: Apache-2.0
"""What differs between interpreters or replaces the standard library. Each module states its reason and its assumptions."""
