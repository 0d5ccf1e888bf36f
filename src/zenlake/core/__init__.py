# SPDX-License-Identifier: Apache-2.0
"""Value types, time and text formats that every layer shares. Sans-IO; imports only `errors` and `_compat`."""
