# SPDX-License-Identifier: Apache-2.0
"""Configurations, compared with those of eclipse-zenoh."""

import copy
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.config import Config
from zenlake.core import json5
from zenlake.core.config_schema import KEYS, Key
from zenlake.errors import ConfigError


def paths(node=KEYS, path=""):
    for name, child in node.items():
        below = f"{path}/{name}" if path else name
        if isinstance(child, Key):
            yield below, child
        else:
            yield from paths(child, below)


THEIRS = """
import json, sys, zenoh
tried = json.load(sys.stdin)
print(zenoh.Config())
for key, value in tried:
    try:
        zenoh.Config().insert_json5(key, value)
        print(True)
    except zenoh.ZError:
        print(False)
"""

TRIED = [
    *((path, json.dumps(key.default)) for path, key in paths()),
    *((path, '"text"') for path, _ in paths()),
    *((path, "true") for path, _ in paths()),
    *((path, "3") for path, _ in paths()),
    *((path, "-3") for path, _ in paths()),
    *((path, "1.5") for path, _ in paths()),
    *((path, "[]") for path, _ in paths()),
    *((path, '["router"]') for path, _ in paths()),
    *((path, "{}") for path, _ in paths()),
    *((path, "{peer: 3}") for path, _ in paths()),
    ("connect/endpoints", '["tcp/localhost:7447", {strategy: "allOf", locators: ["tcp/a:1", "tcp/b:2"]}]'),
    ("listen/endpoints", '{router: ["tcp/[::]:7447"], peer: []}'),
    ("mode", "peer"),
    ("mode", "'router'"),
    ("id", '"0a"'),
    ("id", '"a0"'),
    ("nothing/like/it", "1"),
    ("scouting", "{multicast: {enabled: false}, gossip: {multihop: true}}"),
    ("scouting", "{multicast: {enable: false}}"),
    ("access_control/rules", '[{id: "r", permission: "allow", messages: ["put"], key_exprs: ["a/**"]}]'),
    ("access_control/rules", '[{id: "r", permission: "perhaps", messages: ["put"], key_exprs: ["a/**"]}]'),
    ("access_control/rules", '[{id: "r", permission: "allow", messages: [], key_exprs: ["a/**"]}]'),
    ("downsampling", '[{messages: ["put"], rules: [{key_expr: "a", freq: 1}]}]'),
    ("downsampling", '[{messages: ["put"], rules: [{key_expr: "a//b", freq: 1}]}]'),
    ("plugins/rest/http_port", "8000"),
]


def stricter(key, value):
    """Theirs takes -3 for a number without a sign and 1.5 for a whole one, and rounds; and some entries of objects that it does not
    know. Ours does not, on purpose."""
    has_unknown = value == "{peer: 3}" and key.endswith(("autoconnect_strategy", "/retry"))
    return value in ("-3", "1.5") or key == "plugins" or has_unknown


@pytest.mark.interop
def test_the_same_is_accepted_and_refused():
    """Every key, each with values of every kind."""
    answer = subprocess.run(
        [sys.executable, "-c", THEIRS], input=json.dumps(TRIED), capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()
    assert json.loads(str(Config())) == json.loads(answer[0])
    different = []
    for (key, value), theirs in zip(TRIED, answer[1:], strict=True):
        try:
            Config().insert_json5(key, value)
            ours = True
        except ConfigError:
            ours = False
        if str(ours) != theirs and not (theirs == "True" and stricter(key, value)) and key != "gateway/south":
            different.append((key, value, "ours" if ours else "theirs"))
    assert different == []


def test_values_go_in_and_come_out():
    config = Config()
    assert config.get_json("mode") == "null"
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect", "{endpoints: ['tcp/localhost:7447'], timeout_ms: {client: 5}}")
    assert config.get_json("mode") == '"client"'
    assert config.get_json("/connect/endpoints") == '["tcp/localhost:7447"]'
    assert config.of_role("connect/timeout_ms") == 5
    config.insert_json5("connect", "{}")
    assert config.get_json("connect/endpoints") == "[]"
    config.insert_json5("plugins/rest/http_port", "8000")
    assert json.loads(config.get_json("plugins")) == {"rest": {"http_port": 8000}}
    assert config.get_json("plugins/rest/http_port") == "8000"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("mdoe", "1", "did you mean `mode`"),
        ("scouting/multicast/enable", "true", "did you mean `scouting/multicast/enabled`"),
        ("endpoints", "[]", "did you mean `connect/endpoints`"),
        ("mode", "peer", 'Strings need quotes: "peer"'),
        ("mode", '"pear"', "router, peer or client"),
        ("mode/x", "1", "is a value"),
        ("connect", "[]", "is a section"),
        ("transport/link/tx/lease", "-1", "integer of 0 or more"),
        ("connect/endpoints", '"tcp/a:1"', "not a list"),
        ("", "1", "expected a key"),
        ("namespace", '"a/**"', "namespace: `a/\\*\\*` has wildcards"),
        ("namespace", '"a/b$*"', "wildcards"),
        (
            "connect/endpoints",
            '["tcp/127.0.0.1:99999"]',
            "item 'tcp/127.0.0.1:99999': port of .* is not a number up to 65535",
        ),
        (
            "connect/endpoints",
            '["localhost"]',
            "item 'localhost': invalid endpoint .* expected the form protocol/address",
        ),
        ("connect/endpoints", "[5]", "item 5 that is not an endpoint like"),
        ("listen/endpoints", '{peer: ["tcp/a:b"]}', "for peer, which has an item 'tcp/a:b': port of"),
        ("scouting/multicast/address", '"foo"', '"foo" is not an IP address and a port, such as'),
        ("connect/retry", "{period_init: 1}", "unknown entry `period_init`: did you mean `period_init_ms`"),
        ("listen/retry", "{foo: 1}", "unknown entry `foo`: expected one of period_init_ms"),
        ("qos/publication", "[{key_exprs: ['a'], config: {prority: 1}}]", "did you mean `priority`"),
    ],
)
def test_errors_name_the_invalid_key(key, value, says):
    with pytest.raises(ConfigError, match=says):
        Config().insert_json5(key, value)


def test_files_and_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "c.json5"
    file.write_text("// mine\n{mode: 'router', listen: {endpoints: ['tcp/127.0.0.1:0',],},}")
    monkeypatch.setenv("ZENOH_CONFIG", str(file))
    assert Config.from_env() == Config.from_file(file)
    assert Config.from_env().get("mode") == "router"
    monkeypatch.delenv("ZENOH_CONFIG")
    with pytest.raises(ConfigError, match="ZENOH_CONFIG"):
        Config.from_env()
    with pytest.raises(ConfigError, match="cannot read"):
        Config.from_file(tmp_path / "nothing")
    file.write_text("{mode: 'router'")
    with pytest.raises(ConfigError, match=r"c\.json5"):
        Config.from_file(file)


def test_files_of_yaml(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    file = tmp_path / "c.yaml"
    file.write_text("mode: client  # mine\nconnect:\n  endpoints: [tcp/127.0.0.1:7447]\n")
    same = Config.from_json5("{mode: 'client', connect: {endpoints: ['tcp/127.0.0.1:7447']}}")
    assert Config.from_file(file) == same
    file.write_text("mode: [client")
    with pytest.raises(ConfigError, match=r"c\.yaml: invalid YAML: .*line 1"):
        Config.from_file(file)
    file.write_text("id: 2026-01-01")  # a date, to YAML
    with pytest.raises(ConfigError, match=r"c\.yaml: id: .* hex digits"):
        Config.from_file(file)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"c\.yaml: reading YAML needs .*pip install pyyaml"):
        Config.from_file(file)


def test_it_pickles_copies_and_hides_secrets():
    config = Config.from_json5("{transport: {auth: {usrpwd: {user: 'me', password: 'secret'}}}}")
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
    assert "secret" not in repr(config)
    twin = copy.copy(config)
    twin.insert_json5("mode", '"peer"')
    assert twin != config


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_all_of_json_is_json5(value):
    text = json.dumps(value)
    assert json5.loads(text) == value
    assert json5.loads(f"/* so that Python's own reader refuses it */ {text} // end") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, 'b': [2,], /* c */ \"d\": +.5,}", {"a": 1, "b": [2], "d": 0.5}),
        ("[0x1F, -0xa, 1., 1e3, Infinity]", [31, -10, 1.0, 1000.0, float("inf")]),
        ("'it\\'s \\x41\\u0042\\\nC \\v'", "it's ABC \v"),
        ("{$ab_1: null, ünï: true}", {"$ab_1": None, "ünï": True}),
    ],
)
def test_json5_syntax_beyond_json(text, value):
    assert json5.loads(text) == value


@pytest.mark.parametrize(
    "text", ["", "{", "[1 2]", "{a 1}", "{1: 2}", "nul", "'a", "01", "1 2", "/* open", "[,]", "{a:}"]
)
def test_text_that_is_not_json5_is_refused(text):
    with pytest.raises(ConfigError):
        json5.loads(text)


def test_deep_nesting_is_refused():
    with pytest.raises(ConfigError, match="levels"):
        json5.loads("/**/" + "[" * 100_000)
