# SPDX-License-Identifier: Apache-2.0
"""Public classes: the session, its entities and received items, with the names of zenoh-python."""
