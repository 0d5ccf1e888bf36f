# SPDX-License-Identifier: Apache-2.0
"""From a configuration to a session. Keys without effect are logged, or refused if access control would be weaker."""

import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from docs.settings import asked_for, keys

import zenlake
from tests.api.nodes import PATIENCE, config, listening, wait_until
from zenlake.api.config_mapping import AS_IT_IS, IDLE, is_idle
from zenlake.core.config_schema import KEYS


def test_plugins_are_warned_about(caplog):
    with zenlake.open(config(plugins={"rest": {"http_port": 8000}})):
        assert "plugins (rest), but a session does not load plugins" in caplog.text
        assert "zenohd" in caplog.text


PUBLIC_KEYS = [
    "known_keys_file",
    "private_key_file",
    "private_key_pem",
    "public_key_file",
    "public_key_pem",
    "key_size",
]


@pytest.mark.parametrize("key", PUBLIC_KEYS)
def test_authentication_by_public_keys_is_refused(key):
    """If the key was ignored, every peer would be admitted."""
    with pytest.raises(zenlake.errors.ConfigError, match=rf"{key} .* \(transport/link/tls/enable_mtls\)"):
        zenlake.open(config(**{f"transport__auth__pubkey__{key}": 2048 if key == "key_size" else "keys.pem"}))


@pytest.mark.parametrize("read", [True, False])
def test_the_admin_space_is_shown_only_to_readers_that_may(read):
    session, where = listening(adminspace__enabled=True, adminspace__permissions__read=read)
    with session, zenlake.open(config("client", connect=where)) as other:
        assert bool(list(other.get(f"@/{session.zid()}/**", timeout=5))) == read


def test_the_keys_listed_as_idle_are_those_that_no_module_reads():
    idle = {path for path, _ in keys("", KEYS) if is_idle(path)}
    assert idle == {path for path, _ in keys("", KEYS)} - asked_for() - {"plugins"}
    assert all(any(path == each or path.startswith(f"{each}/") for path in idle) for each in IDLE)


# A value for each key that differs from its default.
SET = {
    "adminspace/permissions/write": True,
    "gateway/south": "auto",
    "listen/exit_on_failure": False,
    "listen/timeout_ms": 5,
    "metadata": {"name": "x"},
    "plugins_loading/enabled": True,
    "routing/peer": {"mode": "linkstate"},
    "scouting/gossip/multihop": True,
    "scouting/gossip/target": ["router"],
    "transport/link/tls/close_link_on_expiration": True,
    "transport/link/tls/root_ca_certificate_base64": "AAAA",
    "transport/link/tx/queue/batching/enabled": False,
    "transport/link/tx/queue/size/control": 4,
    "transport/link/tx/threads": 3,
    "transport/unicast/max_links": 2,
}


@pytest.mark.parametrize("path", SET)
def test_a_key_without_effect_is_logged_in_one_line(path, caplog):
    with zenlake.open(config(**{path.replace("/", "__"): SET[path]})):
        assert caplog.messages == [f"the configuration sets keys without effect: {path}"]


def test_a_key_with_its_default_is_not_logged(caplog):
    usual = {path.replace("/", "__"): value for path, value in AS_IT_IS.items()}
    usual |= {"transport__unicast__max_links": 1, "transport__link__tx__queue__size__control": 2, "metadata": None}
    with zenlake.open(config(**usual)):
        assert caplog.messages == []


FORMS = {
    "listen/exit_on_failure": [{"peer": True}, {"router": False}, {"peer": None, "router": False}],
    "listen/retry": [{"period_init_ms": {"peer": 1000, "router": 5}}, {"period_max_ms": None}],
    "listen/timeout_ms": [{"peer": 0, "router": -1}],
    "scouting/gossip/target": [["router", "peer"], {"peer": ["router", "peer"]}, {"router": ["peer"]}],
}


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in FORMS.items() for value in values])
def test_a_key_whose_value_for_this_mode_is_the_default_is_not_logged_in_any_form(path, value, caplog):
    with zenlake.open(config(**{path.replace("/", "__"): value})):
        assert caplog.messages == []


@pytest.mark.parametrize(
    ("small", "great", "connects"),
    [
        ({}, {}, True),
        ({"autoconnect": []}, {"autoconnect": {"peer": []}}, False),
        ({"autoconnect_strategy": "greater-zid"}, {"autoconnect": ["router"]}, False),
        ({"autoconnect": []}, {"autoconnect_strategy": {"peer": {"to_peer": "greater-zid"}}}, True),
        ({"autoconnect_strategy": {"peer": {"to_router": "greater-zid"}}}, {"autoconnect": []}, True),
    ],
)
def test_peers_found_by_gossip_are_connected_as_configured(small, great, connects):
    hub, where = listening()
    peers = [
        zenlake.open(config(id=id, connect=where, listen="tcp/127.0.0.1:0", scouting__gossip=gossip))
        for id, gossip in (("10", small), ("20", great))
    ]
    with hub, peers[0], peers[1]:
        if connects:
            wait_until(lambda: all(len(peer.info.peers_zid()) == 2 for peer in peers))
        else:
            time.sleep(0.5)  # it would take some milliseconds
            assert all(len(peer.info.peers_zid()) == 1 for peer in peers)


def test_only_allowed_protocols_listen():
    for allowed in ([], ["tls"], ["tls", "udp"]):
        with pytest.raises(zenlake.errors.LinkError, match=r"transport/link/protocols allows .*: add tcp"):
            zenlake.open(config(listen="tcp/127.0.0.1:0", transport__link__protocols=allowed))
    zenlake.open(config(listen="tcp/127.0.0.1:0", transport__link__protocols=["tcp"])).close()


def test_only_allowed_protocols_are_connected_to(caplog):
    session, where = listening()
    with session:
        with pytest.raises(zenlake.errors.LinkError, match="transport/link/protocols allows tls: add tcp"):
            zenlake.open(config("client", connect=where, transport__link__protocols=["tls"]))
        zenlake.open(config("client", connect=where, transport__link__protocols=["tcp"])).close()
        caplog.clear()
        with zenlake.open(config(connect=where, transport__link__protocols=["tls"])) as alone:
            assert caplog.messages == [f"transport/link/protocols does not allow {where}; it is not connected"]
            assert alone.info.peers_zid() == []


def ahead(seconds):
    """Return a time of another clock that is this far ahead."""
    return zenlake.Timestamp(datetime.now(UTC) + timedelta(seconds=seconds), b"\1")


@pytest.mark.parametrize(("stamps", "drops"), [(True, True), (True, False), (False, True)])
def test_samples_of_the_future_are_dropped_by_a_node_that_stamps_if_it_is_to(stamps, drops):
    session, where = listening(timestamping={"enabled": stamps, "drop_future_timestamp": drops})
    with session, zenlake.open(config("client", connect=where)) as other:
        here, there = session.declare_subscriber("a/*"), other.declare_subscriber("b/*")
        publishers = [other.declare_publisher("a/1"), session.declare_publisher("b/1")]
        wait_until(lambda: all(each.matching_status.matching for each in publishers))
        for publisher in publishers:
            publisher.put("far", timestamp=ahead(60))
            publisher.put("near", timestamp=ahead(0.1))
        for subscriber in (here, there):
            first = subscriber.recv(PATIENCE)
            if stamps and drops:
                assert str(first.payload) == "near"
            else:
                assert (str(first.payload), bytes(first.timestamp.get_id()) == b"\1") == ("far", not stamps)
        dropped = "samples dropped: their timestamp is too far ahead"
        assert session.counters().get(dropped, 0) == (2 if stamps and drops else 0)


@pytest.mark.parametrize("drops", [True, False])
def test_rows_of_the_future_are_dropped_or_stamped_like_single_samples(drops):
    session, where = listening(timestamping={"enabled": True, "drop_future_timestamp": drops})
    rows = {
        "key": ["b/1", "b/1"],
        "payload": [b"far", b"near"],
        "timestamp": [datetime.now(UTC) + timedelta(seconds=60), datetime.now(UTC)],
    }
    with session, zenlake.open(config("client", connect=where)) as other:
        here, there = session.declare_subscriber("b/*"), other.declare_subscriber("b/*")
        with session.declare_publisher("b/1", allowed_destination=zenlake.Locality.REMOTE) as publisher:
            wait_until(lambda: publisher.matching_status.matching)
            session.put_table(pa.table(rows))
        assert [str(here.recv(PATIENCE).payload) for _ in range(2)] == ["far", "near"]
        first = there.recv(PATIENCE)
        assert str(first.payload) == ("near" if drops else "far")
        assert first.timestamp.get_time() < datetime.now(UTC) + timedelta(seconds=1)
        name = "samples dropped: their timestamp is too far ahead" if drops else "timestamps replaced: too far ahead"
        assert session.counters()[name] == 1


FUTURE = """
import datetime, importlib, json, sys, time
zenoh = importlib.import_module(sys.argv[1])
where = f"tcp/127.0.0.1:{sys.argv[2]}"
def opened(mode, **more):
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    for name, value in {"scouting/multicast/enabled": False, "listen/endpoints": [], **more}.items():
        config.insert_json5(name, json.dumps(value))
    return zenoh.open(config)
for drops in (False, True):
    stamping = {"enabled": True, "drop_future_timestamp": drops}
    router = opened("router", **{"listen/endpoints": [where], "timestamping": stamping})
    client = opened("client", **{"connect/endpoints": [where]})
    here, there = router.declare_subscriber("**"), client.declare_subscriber("**")
    for session in (router, client):
        with session.declare_publisher("a", allowed_destination=zenoh.Locality.REMOTE) as publisher:
            while not publisher.matching_status.matching:
                time.sleep(0.01)
    for session in (router, client):
        for ahead in (0.3, 0.8, 86400):
            when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead)
            session.put("a", str(ahead), timestamp=zenoh.Timestamp(when, b"\\1"))
        session.delete("a", timestamp=zenoh.Timestamp(when, b"\\1"))
        session.put("end", "")
        for subscriber in (here, there):
            seen = []
            while str((each := subscriber.recv()).key_expr) != "end":
                seen.append((str(each.payload), bytes(each.timestamp.get_id()) == b"\\1"))
            print(drops, seen)
    client.close()
    router.close()
"""


@pytest.mark.interop
def test_samples_of_the_future_are_treated_as_by_the_real_one():
    def run_program(package):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-c", FUTURE, package, port]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()

    assert run_program("zenlake") == run_program("zenoh")


NO_TIME = """
import importlib, json, sys, time
zenoh = importlib.import_module(sys.argv[1])
config = zenoh.Config()
for name, value in {"listen/endpoints": [], "scouting/multicast/enabled": False, "queries_default_timeout": 0}.items():
    config.insert_json5(name, json.dumps(value))
with zenoh.open(config) as session:
    kept = []
    session.declare_queryable("q", kept.append)
    began = time.monotonic()
    print([str(reply.err.payload) for reply in session.get("q")], time.monotonic() - began < 2)
"""


def run_program(package):
    command = [sys.executable, "-c", NO_TIME, package]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_default_timeout_of_zero_expires_immediately():
    assert run_program("zenlake").endswith("True\n")


@pytest.mark.interop
def test_a_default_timeout_of_zero_behaves_as_in_eclipse_zenoh():
    assert run_program("zenlake") == run_program("zenoh")
