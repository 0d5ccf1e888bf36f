# SPDX-License-Identifier: Apache-2.0
"""`zenlake router -c FILE`: a configuration file of Zenoh, with the effect of every key on nodes of eclipse-zenoh."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.nodes import Theirs, until
from tests.interop.partner import Wheel
from tests.interop.test_network_changes import our_router

FILE = """
// As a user writes it: comments, names without quotes, commas at the end.
{
  mode: "router",
  listen: { endpoints: ["%(where)s"] },
  scouting: { multicast: { enabled: false } },
  transport: {
    unicast: { max_sessions: 2, accept_pending: 10 },
    auth: { usrpwd: { dictionary_file: "%(users)s" } },
    link: {
      rx: { max_message_size: 300000 },
      tls: { listen_certificate: "%(certificates)s/server.pem", listen_private_key: "%(certificates)s/server.key" },
    },
  },
  access_control: {
    enabled: true,
    default_permission: "allow",
    rules: [{
      id: "not there", permission: "deny", flows: ["ingress"], messages: ["put"], key_exprs: ["secret/**"],
    }],
    subjects: [{ id: "alice", usernames: ["alice"] }],
    policies: [{ rules: ["not there"], subjects: ["alice"] }],
  },
}
"""


def user(name: str, password: str) -> dict[str, Any]:
    return {"transport/auth/usrpwd/user": name, "transport/auth/usrpwd/password": password}


@pytest.fixture
def where(ports: Iterator[int], certificates: Path, tmp_path: Path) -> Iterator[str]:
    """A router of ours with that file."""
    endpoint = f"tls/localhost:{next(ports)}"
    (tmp_path / "users").write_text("alice:wonderland\nbob:builder\n")
    file = tmp_path / "router.json5"
    file.write_text(FILE % {"where": endpoint, "users": tmp_path / "users", "certificates": certificates})
    with our_router("-c", str(file)):
        yield endpoint


def test_users_tls_access_and_limits_of_a_file_hold(where: str, wheel_tls: dict[str, object]) -> None:
    alice = Theirs("client", (where,), **user("alice", "wonderland"), **wheel_tls)
    bob = Theirs("client", (where,), **user("bob", "builder"), **wheel_tls)
    try:
        bob.do("sub", "s", "**")
        alice.do("pub", "p", "open/x")
        until(lambda: alice.do("matching", "p"))
        alice.do("put", "secret/x", "she may not")
        alice.do("put", "open/x", 200_000)
        alice.do("put", "open/x", 400_000)  # larger than the router takes
        alice.do("put", "open/x", "end")
        assert [event[:3] for event in bob.events.wait("sample", "s", 2)] == [
            ["open/x", "put", 200_000],
            ["open/x", "put", "end"],
        ]
        for wrong in (user("alice", "guess"), user("bob", "builder"), {}):  # bob would be the third session
            stranger = Wheel({"mode": "client", "connect/endpoints": [where], **wheel_tls, **wrong})
            stranger.expect("FAILED")
            stranger.close()
        alice.close()
        late = Theirs("client", (where,), **user("bob", "builder"), **wheel_tls)
        late.close()
    finally:
        alice.close()
        bob.close()
