# SPDX-License-Identifier: Apache-2.0
"""The version matrix: scenarios between Zenlake and every minor version of eclipse-zenoh, in every role.

`environments` installs the wheels, `topologies` builds networks, `scenarios` are what must work in each. `python -m tests.versions`
runs them all (`make matrix`) and writes docs/versions.json. The tests run a part of them.
"""
