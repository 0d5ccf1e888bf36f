# SPDX-License-Identifier: Apache-2.0
"""What users hold: the session and all that it declares, gives and takes, under the names of zenoh-python."""
