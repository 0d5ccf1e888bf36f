# SPDX-License-Identifier: Apache-2.0
"""Random bytes against every entry point: `python -m fuzz --count 1000000`.

A target is a module here: its first comment is its invariant, `CORPUS` is what to start from, `check(data)` raises if
the invariant does not hold. Inputs depend on the seed, the target and their number alone, so a failure comes again.
"""
