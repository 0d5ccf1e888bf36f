# SPDX-License-Identifier: Apache-2.0
"""Passwords and private keys: read from a file, the environment or a prompt, and shown nowhere."""

import json
import logging
import os
import pickle
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zenlake
from tests.cli.test_tables_commands import run  # noqa: F401
from zenlake.api.config_mapping import PASSWORD_ENV, node_config
from zenlake.api.session_node import open_node
from zenlake.cli.network_options import configuration
from zenlake.config import Config
from zenlake.core.endpoint import EndPoint, Locator
from zenlake.core.secret_redaction import HIDDEN, redact, redact_value
from zenlake.errors import ConfigError, EndpointError, LinkError, ZenlakeError

SECRET = "hunter2"
PASSWORD = "transport/auth/usrpwd/password"
ENDPOINT = f"tls/robots.example:7447#connect_private_key_base64={SECRET};verify_name_on_connect=false"
COMMAND = [sys.executable, "-c", "from zenlake.cli import main; main()"]


def usrpwd(password: str = SECRET) -> str:
    return json.dumps({"transport": {"auth": {"usrpwd": {"user": "robot", "password": password}}}})


@pytest.fixture
def config() -> Config:
    found = Config.from_json5(usrpwd())
    found.insert_json5("connect/endpoints", json.dumps([ENDPOINT]))
    found.insert_json5("transport/link/tls/connect_private_key_base64", json.dumps(SECRET))
    found.insert_json5("transport/auth/pubkey/private_key_pem", json.dumps(SECRET))
    found.insert_json5("plugins/rest", json.dumps({"db": {"password": SECRET}, "url": f"http://x?password={SECRET}"}))
    return found


def test_a_configuration_shows_no_secret(config: Config) -> None:
    for shown in (str(config), repr(config), f"{config}", f"{config!r}"):
        assert SECRET not in shown
        assert HIDDEN in shown
        assert "robot" in shown
    assert json.loads(str(config))["transport"]["auth"]["usrpwd"]["password"] == HIDDEN
    assert json.loads(str(Config()))["transport"]["auth"]["usrpwd"]["password"] is None
    assert config.get(PASSWORD) == SECRET  # available by its name
    assert json.loads(config.get_json(PASSWORD)) == SECRET
    assert SECRET not in repr(node_config(Config.from_json5(usrpwd())))


WRONG_TEXTS = [
    "{transport:{auth:{usrpwd:{user:'u',password:hunter2}}}}",
    "{transport:{auth:{usrpwd:{user:'u',password:'x'hunter2'}}}}",
    '{transport:{auth:{usrpwd:{user:"u, password: "hunter2"}}}}',
    "{transport:{auth:{usrpwd:{password:'hunter2}}}}",
    "{transport:{auth:{usrpwd:'robot:hunter2'}}}",
    "{transport:{auth:{usrpwd:{password:['hunter2']}}}}",
    "{transport:{auth:{usrpwd:{password:{a:'hunter2'}}}}}",
    "{transport:{auth:{pubkey:{private_key_pem:hunter2}}}}",
    "{transport:{link:{tls:{connect_private_key_base64:{x:'hunter2'}}}}}",
    "{connect:{endpoints:['tls/x#connect_private_key_base64=hunter2']}}",
    "{connect:{endpoints:[{password:'hunter2'}]}}",
]


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_errors_of_a_configuration_quote_no_secret(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.json5").write_text(text)
    for read in (lambda: Config.from_json5(text), lambda: Config.from_file(tmp_path / "c.json5")):
        with pytest.raises(ConfigError) as refused:
            read()
        assert SECRET not in str(refused.value) + repr(refused.value)


@pytest.mark.parametrize("value", ["hunter2", "'hunter2", "['hunter2']", "{a:'hunter2'}", "'a' hunter2"])
def test_errors_of_one_value_quote_no_secret(value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config().insert_json5(PASSWORD, value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("text", ["password: *hunter2", "password: 'hunter2", "a: b: hunter2", "password: @hunter2"])
def test_errors_of_yaml_quote_no_secret(text: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match="invalid YAML: line 1") as refused:
        Config.from_file(tmp_path / "c.yaml")
    assert SECRET not in str(refused.value)


def test_errors_without_secrets_still_quote() -> None:
    with pytest.raises(ConfigError, match="unexpected `client}`; expected a value"):
        Config.from_json5("{mode: client}")


@pytest.mark.parametrize("error", [LinkError(ENDPOINT, "refused"), EndpointError(ENDPOINT), ZenlakeError(usrpwd())])
def test_errors_hide_secrets(error: ZenlakeError) -> None:
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert SECRET not in str(each) + repr(each)
        assert HIDDEN in str(each)


def test_endpoints_hide_secrets() -> None:
    found = EndPoint.parse(ENDPOINT)
    assert SECRET not in repr(found)
    assert str(found) == ENDPOINT  # it is the value itself
    assert "verify_name_on_connect=false" in repr(found)
    assert SECRET not in repr(Locator.parse(f"tcp/a:1?password={SECRET}"))


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2", "PASSWORD = hunter2", "db_password: hunter2, x", '{"password": "hunter2"}', "{password:'hunter2'}",
        '"password":"a\\"hunter2"', "--set transport/auth/usrpwd/password=hunter2", "x#a_base64=hunter2;b=1", "api_token=hunter2",
        "s3://key:hunter2@bucket/log: no", "s3://bucket?secret_key=hunter2&region=x",
    ],
)  # fmt: skip
def test_redaction_of_texts(text: str) -> None:
    assert SECRET not in redact(text)
    assert redact("no secret in here: a=b") == "no secret in here: a=b"


def test_redaction_of_values_keeps_the_rest() -> None:
    value = {"a": [1, {"password": SECRET, "b": None}], "password": None}
    assert redact_value(value) == {"a": [1, {"password": HIDDEN, "b": None}], "password": None}


@pytest.mark.parametrize(
    "words",
    [
        ("--set", f"{PASSWORD}:{SECRET}"), ("--set", f"{PASSWORD}={{{SECRET}"), ("--set", f"{PASSWORD}=['{SECRET}']"),
        ("--set", f'{PASSWORD}=["{SECRET}"]'), ("--set", f'transport/auth/usrpwd="{SECRET}"'), ("-e", ENDPOINT),
        ("-e", f"robots.example#password={SECRET}"),
    ],
)  # fmt: skip
def test_errors_of_the_command_line_hide_secrets(run: Any, words: tuple[str, ...]) -> None:  # noqa: F811
    code, out, err = run("put", "a", "1", "-e", "tcp/127.0.0.1:1", *words)
    assert code in (1, 2)
    assert SECRET not in err + out.decode()


def test_lines_of_the_log_hide_secrets(run: Any) -> None:  # noqa: F811
    run("--version")
    assert logging.lastResort is not None
    record = logging.LogRecord("zenlake", logging.ERROR, "", 1, "no link to %s", (ENDPOINT,), None)
    assert SECRET not in logging.lastResort.format(record)


def test_a_password_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, "other")
    (tmp_path / "password").write_text(f"{SECRET}\nsecond line\n")
    user = ["transport/auth/usrpwd/user=robot"]
    found = configuration(values=user, password_file=tmp_path / "password")
    assert node_config(found).transport["password"] == SECRET.encode()
    with pytest.raises(FileNotFoundError):
        configuration(values=user, password_file=tmp_path / "absent")


def test_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_ENV, SECRET)
    found = Config()
    assert node_config(found).transport["password"] == b""  # without a user there is no use for it
    found.insert_json5("transport/auth/usrpwd/user", '"robot"')
    assert node_config(found).transport["password"] == SECRET.encode()
    found.insert_json5(PASSWORD, '"configured"')
    assert node_config(found).transport["password"] == b"configured"


@pytest.fixture
def router(tmp_path: Path) -> Iterator[str]:
    users = tmp_path / "users.txt"
    users.write_text(f"robot:{SECRET}\n")
    config = {
        "transport/auth/usrpwd/dictionary_file": str(users),
        "listen/endpoints": ["tcp/127.0.0.1:0"],
        "mode": "router",
    }
    settings = Config()
    for key, value in config.items():
        settings.insert_json5(key, json.dumps(value))
    node = open_node(settings)
    yield node.locators[0]
    node.close()


@pytest.mark.parametrize("way", ["file", "environment", "standard input"])
def test_a_session_opens_without_the_password_in_the_process_list(router: str, tmp_path: Path, way: str) -> None:
    words = [*COMMAND, "put", "a", "1", "-e", router, "--set", "transport/auth/usrpwd/user=robot"]
    environment = {name: value for name, value in os.environ.items() if name != PASSWORD_ENV}
    given = ""
    if way == "file":
        (tmp_path / "password").write_text(SECRET + "\n")
        words += ["--password-file", str(tmp_path / "password")]
    elif way == "environment":
        environment[PASSWORD_ENV] = SECRET
    else:
        words += ["--password-file", "-"]
        given = SECRET + "\n"
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, input=given)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert SECRET not in done.stderr
    assert SECRET not in " ".join(words)


def test_the_password_is_prompted_for(router: str) -> None:
    words = [
        *COMMAND,
        "put",
        "a",
        "1",
        "-e",
        router,
        "--set",
        "transport/auth/usrpwd/user=robot",
        "--password-file",
        "-",
    ]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdin=theirs, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stderr is not None
    assert process.stderr.read(len("Zenoh password: ")) == b"Zenoh password: "
    os.write(ours, f"{SECRET}\n".encode())
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert SECRET.encode() not in said
    assert not select.select([ours], [], [], 0.1)[0]  # nothing is echoed
    os.close(ours)
    os.close(theirs)


def test_a_wrong_password_is_not_in_the_error(router: str) -> None:
    found = Config.from_json5(usrpwd("hunter2 is wrong"))
    found.insert_json5("mode", '"client"')
    found.insert_json5("connect/endpoints", json.dumps([router]))
    with pytest.raises(ZenlakeError) as refused:
        zenlake.open(found)
    assert SECRET not in str(refused.value)
