# SPDX-License-Identifier: Apache-2.0
import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.core.endpoint import PROTOCOLS, EndPoint, Locator
from zenlake.errors import EndpointError

words = st.text("abcdefghij0123456789_-.", min_size=1, max_size=8)
pairs = st.dictionaries(words, words, max_size=4)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [  # asked of 1.10.2
        ("tcp/localhost:7447", None),
        ("tcp/localhost:7447?b=2;a=1", "tcp/localhost:7447?a=1;b=2"),
        ("tcp/localhost:7447#so_rcvbuf=65536;iface=lo", "tcp/localhost:7447#iface=lo;so_rcvbuf=65536"),
        ("tcp/a:1?b=2;a=1#z=1;c=2", "tcp/a:1?a=1;b=2#c=2;z=1"),
        ("tcp/a:1?;a=1;;", "tcp/a:1?a=1"),
        ("tcp/a:1?a", None),
        ("tcp/a:1?a=1;a=2", None),
        ("tcp/a:1?a=1|2", None),
        ("tcp/a:1?a=1?c=3", None),
        ("tcp/a:1?a=1#b=2#c=3", None),
        ("tcp/a:1#a=b=c", None),
        ("tcp/[::1]:7447", None),
        ("udp/224.0.0.1:7447#iface=eth0", None),
        ("unixsock-stream//tmp/x.sock", None),
        ("serial//dev/ttyUSB0#baudrate=115200", None),
    ],
)
def test_canonical_form(text, canonical):
    endpoint = EndPoint.parse(text)
    assert str(endpoint) == (canonical or text)
    assert EndPoint.parse(str(endpoint)) == endpoint


def test_its_parts():
    endpoint = EndPoint.parse("tcp/localhost:7447?prio=1-3;rel=1#iface=lo;so_rcvbuf=65536")
    assert (endpoint.protocol, endpoint.address) == ("tcp", "localhost:7447")
    assert endpoint.metadata == {"prio": "1-3", "rel": "1"}
    assert endpoint.config == {"iface": "lo", "so_rcvbuf": "65536"}
    assert str(endpoint.locator) == "tcp/localhost:7447?prio=1-3;rel=1"
    assert endpoint.host_and_port() == ("localhost", 7447)
    assert repr(endpoint.locator) == "Locator('tcp/localhost:7447?prio=1-3;rel=1')"


def test_of_a_key_that_is_there_twice_the_first_counts():
    assert EndPoint.parse("tcp/a:1?a=1;a=2").metadata == {"a": "1"}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("tcp/127.0.0.1:0", "127.0.0.1", 0),
        ("tcp/[::]:65535", "::", 65535),
        ("tls/[fe80::1%eth0]:7447", "fe80::1%eth0", 7447),
        ("quic/router.example:7447", "router.example", 7447),
    ],
)
def test_host_and_port(text, host, port):
    assert EndPoint.parse(text).host_and_port() == (host, port)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "protocol/address[?metadata][#config]"),
        ("tcp", "protocol/address[?metadata][#config]"),
        ("tcp/", "protocol/address[?metadata][#config]"),
        ("/a:1", "protocol/address[?metadata][#config]"),
        ("tcp/a:1?", "after `?`"),
        ("tcp/a:1#", "after `#`"),
        ("tcp/a:1?#", "after `?`"),
        ("tcp/a:1?=x", "after `?`"),
        ("tcp/a:1#y=2?x=1", "?metadata must be before #config"),
        ("TCP/a:1", "did you mean `tcp`?"),
        ("udpp/a:1", "did you mean `udp`?"),
        ("carrier-pigeon/roof", "expected one of tcp, tls, quic, udp, ws, wss, unixsock-stream"),
        ("tcp/a", "no host and port: expected a form like tcp/localhost:7447"),
        ("tcp/:7447", "no host and port"),
        ("tcp/a:", "port of"),
        ("tcp/a:65536", "number up to 65535"),
        ("tcp/a:-1", "number up to 65535"),
        ("tcp/::1:7447", "write an IPv6 address as [::1]:7447"),
        ("tcp/[::x]:7447", "not an IPv6 address"),
    ],
)
def test_errors_suggest_a_fix(text, advice):
    with pytest.raises(EndpointError, match=re.escape(advice)):
        EndPoint.parse(text)


def test_a_locator_has_no_config():
    with pytest.raises(EndpointError, match="has a config"):
        Locator.parse("tcp/a:1#iface=lo")


class TestWire:
    def test_an_unknown_protocol_is_kept(self):
        locator = Locator.from_wire(b"carrier-pigeon/roof?colour=grey")
        assert (locator.protocol, locator.address) == ("carrier-pigeon", "roof")
        assert locator.to_wire() == b"carrier-pigeon/roof?colour=grey"

    @pytest.mark.parametrize("data", [b"tcp/a:1?b=2;a=1", b"tcp/a:1#iface=lo", b"tcp/a:1?", b"tcp", b"", b"tcp/\xff:1"])
    def test_endpoints_that_do_not_round_trip_are_refused(self, data):
        with pytest.raises(EndpointError):
            Locator.from_wire(data)

    def test_a_locator_of_more_than_255_bytes_cannot_be_sent(self):
        assert len(Locator.parse("tcp/" + "a" * 249 + ":1").to_wire()) == 255
        with pytest.raises(EndpointError, match="at most 255"):
            Locator.parse("tcp/" + "a" * 250 + ":1").to_wire()


@pytest.mark.parametrize("example", PROTOCOLS.values())
def test_the_examples_are_right(example):
    assert str(EndPoint.parse(example)) == example


@given(words, st.integers(0, 65535), pairs, pairs)
def test_encoded_values_decode_to_equal_values(host, port, metadata, config):
    text = f"tcp/{host}:{port}"
    if metadata:
        text += "?" + ";".join(f"{key}={value}" for key, value in metadata.items())
    if config:
        text += "#" + ";".join(f"{key}={value}" for key, value in config.items())
    endpoint = EndPoint.parse(text)
    assert (endpoint.metadata, endpoint.config) == (metadata, config)
    assert EndPoint.parse(str(endpoint)) == endpoint
    assert Locator.from_wire(str(endpoint.locator).encode()) == endpoint.locator
    for other in (pickle.loads(pickle.dumps(endpoint)), copy.deepcopy(endpoint)):
        assert other == endpoint
        assert hash(other) == hash(endpoint)


@given(st.text("tcp/a:1?#=;[]", max_size=20))
def test_any_text_is_either_canonized_or_refused(text):
    try:
        endpoint = EndPoint.parse(text)
    except EndpointError:
        return
    assert str(EndPoint.parse(str(endpoint))) == str(endpoint)
