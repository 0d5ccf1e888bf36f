# SPDX-License-Identifier: Apache-2.0
"""SCOUT in rounds, and HELLO as the reply."""

import pytest

from tests.transport.ends import OPENER
from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.transport.scouting import Responder, Scouter
from zenlake.wire.scouting import Hello

LOCATORS = {True: ["tcp/127.0.0.1:7447", "tcp/192.0.2.1:7447"], False: ["tcp/192.0.2.1:7447"]}


def responder(role: WhatAmI = WhatAmI.ROUTER) -> Responder:
    return Responder(OPENER, role, LOCATORS.__getitem__)


def test_rounds_grow_rarer() -> None:
    scouter = Scouter(WhatAmIMatcher("peer|router"), 10.0)
    assert scouter.data(9.9) is None
    times = []
    for tenth in range(100, 500):
        if (scout := scouter.data(tenth / 10)) is not None:
            times.append(tenth / 10)
            assert scout == bytes.fromhex("010903")  # as 1.10.2 sends it
            assert scouter.data(tenth / 10) is None
    assert times == [10, 11, 13, 17, 25, 33, 41, 49]


@pytest.mark.parametrize("role", list(WhatAmI))
def test_only_the_roles_asked_for_answer(role: WhatAmI) -> None:
    for what in WhatAmI:
        scout = Scouter(WhatAmIMatcher.empty() | what, 0.0).data(0.0)
        assert scout is not None
        assert (responder(role).reply(scout, True) is not None) == (what is role)


@pytest.mark.parametrize("local", [True, False])
def test_the_hello_has_zid_role_and_locators(local: bool) -> None:
    scouter = Scouter(WhatAmIMatcher("router"), 0.0)
    answer = responder().reply(scouter.data(0.0) or b"", local)
    assert answer is not None
    hello = scouter.receive(answer)
    assert hello == Hello(whatami=0, zid=OPENER, locators=LOCATORS[local])


def test_a_scout_of_another_version_is_answered() -> None:
    assert responder().reply(bytes.fromhex("010803"), True) is not None  # probe: version 8


@pytest.mark.parametrize("datagram", [b"", b"\xff", bytes.fromhex("0109"), bytes.fromhex("010903ff")])
def test_garbage_is_ignored_by_scouting(datagram: bytes) -> None:
    assert responder().reply(datagram, True) is None
    assert Scouter(WhatAmIMatcher("router"), 0.0).receive(datagram) is None


def test_an_answer_from_a_role_that_was_not_asked_for_is_ignored() -> None:
    assert Scouter(WhatAmIMatcher("peer"), 0.0).receive(Hello(whatami=0, zid=OPENER).encode()) is None


def test_a_scout_without_a_reachable_address_gets_no_reply() -> None:
    """A HELLO without locators would mean its source address."""
    scout = Scouter(WhatAmIMatcher("router"), 0.0).data(0.0) or b""
    nowhere = Responder(OPENER, WhatAmI.ROUTER, lambda local: ["tcp/127.0.0.1:7447"] if local else [])
    assert nowhere.reply(scout, False) is None
    assert nowhere.reply(scout, True) is not None
