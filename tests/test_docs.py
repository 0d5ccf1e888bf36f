# SPDX-License-Identifier: Apache-2.0
"""The generated pages are those that the sources give today."""

from docs.__main__ import HERE, tables_page


def test_tables_page_is_current():
    assert (HERE / "tables.md").read_text() == tables_page(), "run `make docs`"
