# SPDX-License-Identifier: Apache-2.0
"""The state machine in `docs/design/transport.md` equals the one of the code."""

from pathlib import Path

from zenlake.transport.handshake import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "design" / "transport.md"


def drawn() -> str:
    """Return the table, a row for each transition."""
    rows = [(state.name, event.name, action, then.name) for (state, event), (action, then) in TABLE.items()]
    lines = ["| in state | on event | do | then |", "|---|---|---|---|"]
    lines += [f"| {state} | {event} | `{action}` | {then} |" for state, event, action, then in rows]
    lines.append("| any other | any other | `refuse`: CLOSE INVALID | CLOSED |")
    return "\n".join(lines)


def test_the_page_draws_the_table() -> None:
    assert drawn() in PAGE.read_text()
