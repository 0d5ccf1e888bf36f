# SPDX-License-Identifier: Apache-2.0
"""Fixtures that tests of several layers share."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests import certificates as maker
from zenlake.link import Tls

SPARK = "tests/spark/"
EXAMPLES = os.environ.get("ZENLAKE_EXAMPLES", "")  # fewer examples for property tests, on an emulator

settings.register_profile("zenlake", deadline=None)  # a busy machine is not a bug
settings.load_profile("zenlake")

# A shell without job control starts background commands with SIGINT ignored. Tests of Ctrl-C start programs, which inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell started this in the background; processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca, server, client, host and impostor, each as .pem and .key."""
    folder = tmp_path_factory.mktemp("certificates")
    maker.make(folder)
    return folder


@pytest.fixture(scope="session")
def tls(certificates: Path) -> Tls:
    """TLS of both ends of a connection."""
    return Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of Spark first, because they take longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(SPARK))
    for item in items if EXAMPLES else ():
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        if is_hypothesis_test(test):
            test._hypothesis_internal_use_settings = settings(
                test._hypothesis_internal_use_settings or settings.default, max_examples=int(EXAMPLES)
            )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers, keep the tests of a file together, and all tests of Spark, which share one session."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]

    return Together(config, log)
