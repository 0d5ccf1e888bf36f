# SPDX-License-Identifier: Apache-2.0
"""Certificates that a link accepts, with Zenlake at both ends. (`tests/interop/test_links.py` has eclipse-zenoh at one end.)

eclipse-zenoh has no WebSocket over TLS ("Unicast not supported for wss protocol"), so all tests of it are here.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.nodes import PATIENCE, Recorder, until
from tests.transport.ends import push
from zenlake.core.enums import WhatAmI
from zenlake.errors import LinkError
from zenlake.link import Tls
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.transport.settings import Settings


def runtime(tls: Tls, whatami: WhatAmI = WhatAmI.CLIENT) -> "closing[ConnectionManager]":
    return closing(ConnectionManager(Settings(os.urandom(15) + b"\x01", whatami), Recorder(), tls))


@pytest.fixture
def mutual(certificates: Path) -> Tls:
    return Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
        enable_mtls=True,
    )


@pytest.fixture
def listening(mutual: Tls) -> Iterator[ConnectionManager]:
    with runtime(mutual, WhatAmI.ROUTER) as made:
        yield made


@pytest.mark.parametrize("link", ["tls", "quic", "wss"])
@pytest.mark.parametrize("shown", ["client", "host", "impostor", None])
def test_a_client_must_show_a_certificate_that_is_good_for_clients(
    link: str, shown: str | None, listening: ConnectionManager, certificates: Path
) -> None:
    where = listening.listen(f"{link}/127.0.0.1:0")
    tls = Tls(root_ca_certificate=str(certificates / "ca.pem"))
    if shown is not None:
        tls = replace(
            tls,
            connect_certificate=str(certificates / f"{shown}.pem"),
            connect_private_key=str(certificates / f"{shown}.key"),
        )
    with runtime(tls) as ours:
        if shown == "client":
            assert ours.open(where, PATIENCE).link.common_name == "server"
            until(lambda: listening.faces)
            [face] = listening.faces.values()
            assert face.link.common_name == "client"
        else:
            with pytest.raises(LinkError, match="certificate"):
                ours.open(where, PATIENCE)
            assert not listening.faces


def test_large_messages_over_a_websocket_in_tls(mutual: Tls, certificates: Path) -> None:
    """Ten megabytes each way: many batches, each a message of the WebSocket, split again by TLS."""
    with runtime(replace(mutual, enable_mtls=False), WhatAmI.ROUTER) as there, runtime(mutual) as here:
        face = here.open(there.listen("wss/127.0.0.1:0"), PATIENCE)
        until(lambda: there.faces)
        payload = bytes(range(256)) * 40_000
        for sender, receiver in ((face, there), (*there.faces.values(), here)):
            assert sender.send(push("large", payload), congestion=1)
            assert receiver.node.messages.get(timeout=PATIENCE) == ("large", payload)


def test_without_a_look_at_the_name_the_signature_still_counts(certificates: Path, mutual: Tls) -> None:
    """The certificate is not one for 127.0.0.2."""
    with runtime(replace(mutual, enable_mtls=False), WhatAmI.ROUTER) as listening:
        where = listening.listen("quic/127.0.0.2:0")
        trusting = Tls(root_ca_certificate=str(certificates / "ca.pem"))
        for tls, opens in (
            (trusting, False),
            (replace(trusting, verify_name_on_connect=False), True),
            (Tls(root_ca_certificate=str(certificates / "impostor.pem"), verify_name_on_connect=False), False),
        ):
            with runtime(tls) as ours:
                if opens:
                    assert ours.open(where, PATIENCE).is_open
                else:
                    with pytest.raises(LinkError, match="certificate verification failed"):
                        ours.open(where, PATIENCE)


def test_mutual_tls_needs_to_know_whom_to_trust(mutual: Tls) -> None:
    with (
        runtime(replace(mutual, root_ca_certificate=None), WhatAmI.ROUTER) as ours,
        pytest.raises(LinkError, match="root_ca_certificate"),
    ):
        ours.listen("quic/127.0.0.1:0")
