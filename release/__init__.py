# SPDX-License-Identifier: Apache-2.0
"""Build and check what is published: `make wheels`, `make release`. RELEASING.md describes a release."""
