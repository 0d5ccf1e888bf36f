# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a session: what cannot have its effect is told, or refused where that would let others in."""

import pytest

import zenlake
from tests.api.nodes import config, listening


def test_plugins_are_warned_about(caplog):
    with zenlake.open(config(plugins={"rest": {"http_port": 8000}})):
        assert "plugins (rest), of which a session loads none" in caplog.text
        assert "zenohd" in caplog.text


def test_a_list_of_known_public_keys_is_refused():
    with pytest.raises(zenlake.errors.ConfigError, match=r"known_keys_file .* \(transport/link/tls/enable_mtls\)"):
        zenlake.open(config(transport__auth__pubkey__known_keys_file="keys.txt"))


@pytest.mark.parametrize("read", [True, False])
def test_the_admin_space_is_shown_only_to_readers_that_may(read):
    session, where = listening(adminspace__enabled=True, adminspace__permissions__read=read)
    with session, zenlake.open(config("client", connect=where)) as other:
        assert bool(list(other.get(f"@/{session.zid()}/**", timeout=5))) == read
