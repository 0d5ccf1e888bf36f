# SPDX-License-Identifier: Apache-2.0
"""Our Future against the standard library's: what the runtime does with one gives the same."""

import concurrent.futures
import threading

import pytest

from zenlake._compat.future import Future

each = pytest.mark.parametrize("kind", [Future, concurrent.futures.Future], ids=["ours", "standard"])


@each
def test_who_waits_gets_the_result_or_the_error(kind):
    good, bad = kind(), kind()
    threading.Timer(0.01, lambda: good.set_result(7)).start()
    assert (good.result(5), good.exception(), good.done()) == (7, None, True)
    bad.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        bad.result()
    assert isinstance(bad.exception(), ValueError)


@each
def test_waiting_ends_at_its_time(kind):
    late = kind()
    with pytest.raises(TimeoutError):
        late.result(0.01)
    assert not late.done()


@each
def test_callbacks_hear_of_it_once_before_and_after(kind):
    future, heard = kind(), []
    future.add_done_callback(lambda done: heard.append(done.result()))
    future.set_result(1)
    future.add_done_callback(lambda done: heard.append(done.result()))
    assert heard == [1, 1]
