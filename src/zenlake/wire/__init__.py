# SPDX-License-Identifier: Apache-2.0
"""Wire format: every message of the protocol, read from and written to bytes."""
