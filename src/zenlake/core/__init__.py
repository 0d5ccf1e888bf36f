# SPDX-License-Identifier: Apache-2.0
"""Value types, time and text formats that every layer shares. No network I/O. The package imports only `errors`."""
