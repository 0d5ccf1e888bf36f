# SPDX-License-Identifier: Apache-2.0
"""Encoded messages decode to the same values: every message and extension, in a new object or a reused record."""

import copy
import inspect
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zenlake.wire.declare
import zenlake.wire.handshake
import zenlake.wire.network
import zenlake.wire.scouting
import zenlake.wire.transport
import zenlake.wire.zenoh_body
from tests.vectors import batches
from tests.wire.strategies import COVERED, DATA, DECLARATIONS, EVERY, NETWORK, SCOUTING, TRANSPORT
from zenlake.errors import DecodeError
from zenlake.wire.batch_reader import BatchReader, messages
from zenlake.wire.cursor import Cursor
from zenlake.wire.message_base import Message
from zenlake.wire.scouting import read_scouting
from zenlake.wire.transport import Fragment, Frame

quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
every_kind = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
recorded = [batch for batch in batches() if len(batch.data) <= 600 and batch.file != "scouting"]


def test_no_message_is_left_out():
    modules = [
        getattr(zenlake.wire, name)
        for name in ("zenoh_body", "declare", "handshake", "network", "scouting", "transport")
    ]
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Message) and kind.NAME
    }
    assert kinds == set(EVERY)
    assert len(DATA) + len(DECLARATIONS) + len(NETWORK) + len(SCOUTING) + len(TRANSPORT) == len(EVERY) == 27


@every_kind
def test_no_field_is_left_out(kind):
    assert COVERED[kind] == {*kind.FIELDS, "unknown_exts"}
    assert set(kind.EXTS.values()) <= {*kind.FIELDS}


@every_kind
@quick
@given(st.data())
def test_encoded_values_decode_to_equal_values(kind, data):
    """Into a fresh object, and into a record bound to another buffer before; and it survives pickle and copy."""
    before, message = data.draw(EVERY[kind]), data.draw(EVERY[kind])
    wire = message.encode()
    c = Cursor(wire)
    fresh = kind().decode(c)
    record = kind().decode(Cursor(before.encode())).decode(Cursor(wire))
    assert c.at == c.end
    for again in (fresh, record, kind(**fresh.fields()), pickle.loads(pickle.dumps(fresh)), copy.deepcopy(fresh)):
        assert again == message
        assert again.encode() == wire


@quick
@given(
    st.one_of(strategy for kind, strategy in TRANSPORT.items() if kind is not Fragment),  # it takes the rest
    st.lists(st.one_of(NETWORK.values()), max_size=4),
    st.one_of(TRANSPORT.values()),
)
def test_a_batch_is_its_messages_in_order(first, carried, last):
    parts = [first, Frame(sn=1), *carried, last]
    assert messages(b"".join(part.encode() for part in parts)) == parts


@pytest.mark.parametrize("kind", {**TRANSPORT, **NETWORK}, ids=lambda kind: kind.__name__)
@settings(quick, max_examples=100)
@given(st.data())
def test_a_record_that_held_another_message_is_as_if_fresh(kind, data):
    """The typical bug of reused records is a field that the next message lacks and `read` does not clear."""
    before, message = data.draw(EVERY[kind]).encode(), data.draw(EVERY[kind]).encode()
    reader = BatchReader()
    reader.bind(before + message)  # once: to bind again would clear what was left over
    begin = reader.begin_network if kind in NETWORK else reader.begin
    begin(0, len(before))
    reader.next()
    begin(len(before), len(before) + len(message))
    record = reader.record(reader.next())
    assert record == kind().decode(Cursor(message))
    assert record.encode() == message


# Invalid bytes


def attempt(read, *arguments):
    """Return the message, or the reason of the refusal. Any other exception is a bug and is raised."""
    try:
        return read(*arguments), None
    except DecodeError as error:
        return None, error


def mutated(draw, wire):
    """A few bytes changed, dropped, doubled or put in."""
    wire = bytearray(wire)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(wire)))
        match draw(st.integers(0, 3)):
            case 0 if at < len(wire):
                wire[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                del wire[at : at + draw(st.integers(1, 4))]
            case 2:
                wire[at:at] = wire[at : at + draw(st.integers(1, 4))]
            case _:
                wire[at:at] = draw(st.binary(min_size=1, max_size=4))
    return bytes(wire)


@settings(quick, max_examples=500)
@given(st.data())
def test_mutated_bytes_are_refused_or_are_another_message(data):
    batch = data.draw(st.sampled_from(recorded))
    wire = mutated(data.draw, batch.data)
    found, error = attempt(messages, wire, batch.low_latency)
    if error:
        assert 0 <= error.at <= len(wire)
        return
    assert messages(b"".join(message.encode() for message in found), batch.low_latency) == found


@settings(quick, max_examples=100)
@given(st.data())
def test_mutated_scouting_datagrams_are_refused_or_are_another_message(data):
    wire = mutated(data.draw, data.draw(st.one_of(SCOUTING.values())).encode())
    found, error = attempt(read_scouting, wire)
    if error:
        assert 0 <= error.at <= len(wire)
        return
    assert read_scouting(found.encode()) == found


@settings(quick, max_examples=40)
@given(st.sampled_from(recorded))
def test_a_prefix_is_valid_or_lacks_bytes(batch):
    if attempt(batch.messages)[1]:
        return
    for size in range(len(batch.data)):
        _, error = attempt(messages, batch.data[:size], batch.low_latency)
        if error:
            assert error.why.endswith("left"), (size, error)
            assert error.at <= size
