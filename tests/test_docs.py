# SPDX-License-Identifier: Apache-2.0
"""The generated pages are those that the sources give today."""

import re

import pytest
from docs.__main__ import HERE, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name):
    assert (HERE / name).read_text() == PAGES[name](), "run `make docs`"


def test_every_method_of_the_python_reference_says_what_it_does():
    silent = re.findall(r"^- `[^`]*`$", PAGES["reference.md"](), re.MULTILINE)
    assert silent == []
