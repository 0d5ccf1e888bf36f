# SPDX-License-Identifier: Apache-2.0
"""The table of limits in the documentation agrees with the code; settings and accounts work as documented."""

import re
from pathlib import Path

import pytest

from zenlake.core.peer_limits import DEFAULT_LIMITS, Account, Resource, merge_limits, parse_limits
from zenlake.errors import ConfigError
from zenlake.transport.memory_budget import MemoryBudget

ROOT = Path(__file__).parents[2]
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def rows() -> list[list[str]]:
    text = (ROOT / "docs/design/limits.md").read_text()
    lines = [line for line in text.splitlines() if re.match(r"\| `\w+` \|", line)]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_a_row_for_each_resource() -> None:
    assert [row[0] for row in rows()] == [resource.value for resource in Resource] == [r.value for r in DEFAULT_LIMITS]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_agrees_with_the_code(row: list[str]) -> None:
    name, limit, setting, behaviour, test = row
    number, unit = limit.split()
    assert int(number) * UNITS[unit] == DEFAULT_LIMITS[Resource(name)]
    assert setting == f"--limit {name}=SIZE"
    assert behaviour
    path, _, function = test.partition("::")
    assert f"def {function}" in (ROOT / path).read_text()


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/\S+?)::(\w+)`", (ROOT / "docs/design/limits.md").read_text())
    assert len(named) >= len(Resource) + 26
    assert [name for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []


def test_limits_are_parsed() -> None:
    assert parse_limits(["routes=16MiB", "queries=5", "key_ids = 1KiB".replace(" ", "")]) == {
        "routes": 16 << 20, "queries": 5, "key_ids": 1024,
    }  # fmt: skip
    assert merge_limits({"routes": 5})[Resource.ROUTES] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("routes", "invalid limit 'routes'; expected NAME=SIZE, such as routes=16MiB"),
        ("routes=16MB", "invalid limit 'routes=16MB'"),
        ("rooms=1", "unknown limit 'rooms'; expected one of handshakes, "),
        ("routes=0", "invalid limit routes=0; expected at least 1 byte"),
    ],
)
def test_bad_limits_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_limits([text])


def test_an_account_charges_the_budget() -> None:
    budget = MemoryBudget(100)
    account = Account(merge_limits({"routes": 150}), budget)
    assert account.charge(Resource.ROUTES, 90)
    assert account.charge(Resource.QUERIES, 60)  # a full budget does not refuse it
    assert budget.is_full
    assert not account.charge(Resource.ROUTES, 61)
    assert account.refusals == {Resource.ROUTES: 1}
    assert (account.total, budget.held) == (150, 150)
    account.release(Resource.ROUTES, 90)
    account.close()
    assert (account.total, budget.held) == (0, 0)
