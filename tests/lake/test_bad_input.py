# SPDX-License-Identifier: Apache-2.0
"""Stores, catalogs and disks that fail: one line has the reason, no row is lost, and landing continues when they are back."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import zenlake
from tests.lake.fixtures import decoded, recorded, rows
from tests.lake.test_commit import FORMATS, land, place
from zenlake.cli import main
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch
from zenlake.lake import lake as commit
from zenlake.log import Log

pytestmark = [pytest.mark.timeout(300)]
SECRET = "secret-of-test"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path, size=12)
    return path


def refused(work, words):
    """Return the line of the error."""
    with pytest.raises((LakeError, OSError), match=words) as error:
        work()
    text = str(error.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert SECRET not in text
    return text


def address(store, key, name):
    where = store.endpoint.partition("//")[2]
    return f"s3://{key}:{SECRET}@{name}?region=us-east-1&scheme=http&endpoint_override={where}"


@pytest.mark.usefixtures("credentials")
@FORMATS
def test_wrong_credentials(store, path, format, capsys):
    right, wrong = (address(store, key, f"lake/credentials-{format}") for key in ("any", "wrong"))
    lake, log = Lake(right, create=format), Log(path)
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    before = rows(zenlake.read(right))
    refused(lambda: Lake(wrong), "ACCESS_DENIED")
    refused(lambda: Lake(address(store, "wrong", f"lake/new-{format}"), create=format), "ACCESS_DENIED")
    refused(lambda: zenlake.read(wrong), "ACCESS_DENIED")
    with pytest.raises(SystemExit) as ended:
        main(["lake", "info", wrong])
    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "ACCESS_DENIED" in line
    assert SECRET not in line
    assert rows(zenlake.read(right)) == before
    land(lake, log, LandingBatch("q", 1), tables=["samples"])
    assert rows(zenlake.read(right)) == rows(zenlake.read(path))


@pytest.mark.usefixtures("credentials")
@FORMATS
def test_credentials_that_expire_before_the_commit(store, path, format, monkeypatch):
    """Tasks have written their files. They become orphans, and their rows are landed later."""
    place_ = f"s3://lake/expired-{format}"
    lake, log = Lake(place_, create=format), Log(path)
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    before = rows(zenlake.read(place_))
    monkeypatch.setattr(commit, "TURNS", 3)

    def expire():
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")

    refused(
        lambda: land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 2), tables=["samples"], meanwhile=expire),
        "unknown key|ACCESS_DENIED",
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    lake = Lake(place_)
    assert rows(zenlake.read(place_)) == before
    land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 2), tables=["samples"])
    assert rows(zenlake.read(place_)) == rows(zenlake.read(path))


@pytest.mark.usefixtures("credentials")
def test_a_missing_bucket_and_a_missing_lake(capsys):
    for where, words in (
        ("s3://missing/lake", "the bucket 'missing' does not exist; create it first"),
        ("s3://lake/none", "s3://lake/none is not a lake: it has no zenlake-lake.json"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["lake", "info", where])
        assert ended.value.code == 1
        [line] = capsys.readouterr().err.splitlines()
        assert words in line
    refused(lambda: Lake("s3://missing/lake", create="delta"), "the bucket 'missing' does not exist")


def test_a_store_that_is_down(monkeypatch, tmp_path):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "XDG_STATE_HOME": str(tmp_path),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    refused(lambda: Lake("s3://lake/down"), "cannot read s3://lake/down/zenlake-lake.json: .*Could not connect")


def test_a_catalog_that_is_down(tmp_path, path, monkeypatch, capsys):
    """Replace the address of a working SQL catalog by one without a server."""
    there = f"sqlite:///{tmp_path / 'catalog.db'}"
    for name, value in (("TYPE", "sql"), ("URI", there)):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name}", value)
    reload_configuration(monkeypatch)
    lake, log = Lake(tmp_path / "lake", create="iceberg", catalog="prod"), Log(path)
    land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 2), tables=["samples"])
    before = rows(zenlake.read(tmp_path / "lake"))
    for type_, uri in (("rest", "http://127.0.0.1:9"), ("sql", f"sqlite:///{tmp_path / 'none' / 'catalog.db'}")):
        monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", type_)
        monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", uri)
        reload_configuration(monkeypatch)
        refused(lambda: zenlake.read(tmp_path / "lake"), "prod")
        refused(lambda: land(lake, log, LandingBatch("q", 1), tables=["samples"]), "prod")
        with pytest.raises(SystemExit) as ended:
            main(["lake", "info", str(tmp_path / "lake")])
        assert ended.value.code == 1
        [line] = capsys.readouterr().err.splitlines()
        assert "prod" in line
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", there)
    reload_configuration(monkeypatch)
    assert rows(zenlake.read(tmp_path / "lake")) == before
    land(lake, log, LandingBatch("q", 1), tables=["samples"])
    assert rows(zenlake.read(tmp_path / "lake")) == rows(decoded(path, ["samples"])["samples"])


def test_a_lake_is_created_in_a_catalog_that_opens_and_stays_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path / 'catalog.db'}")
    reload_configuration(monkeypatch)
    refused(lambda: Lake(tmp_path / "lake", create="iceberg", catalog="prdo"), "cannot open the Iceberg catalog prdo")
    assert Lake(tmp_path / "lake", create="iceberg", catalog="prod").catalog == "prod"
    assert Lake(tmp_path / "lake", create="iceberg").catalog == "prod"
    refused(
        lambda: Lake(tmp_path / "lake", create="iceberg", catalog="prdo"), "is in the catalog prod, not prdo; leave out"
    )


def reload_configuration(monkeypatch):
    """`pyiceberg` reads the environment when it is imported."""
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())


@FORMATS
def test_a_full_disk(tmp_path, path, format, monkeypatch):
    """A file system of its own, which is filled before and during the commit."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("only root mounts a file system")
    try:
        lake, log = Lake(disk / "lake", create=format), Log(path)
        monkeypatch.setattr(commit, "TURNS", 2)
        land(lake, log, LandingBatch("q", 0), end=place(log, 1 / 3), tables=["samples"])
        before = rows(zenlake.read(disk / "lake"))

        def fill():
            with suppress(OSError), Path(disk, "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1024))

        refused(
            lambda: land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 3), tables=["samples"], meanwhile=fill),
            "No space left|disk is full",
        )
        with pytest.raises(OSError, match="No space left"):  # in a task
            land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 3), tables=["samples"])
        assert rows(zenlake.read(disk / "lake")) == before
        Path(disk, "filler").unlink()
        land(lake, log, LandingBatch("q", 1), start=place(log, 1 / 3), tables=["samples"])
        assert rows(zenlake.read(disk / "lake")) == rows(decoded(path, ["samples"])["samples"])
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
        shutil.rmtree(disk, ignore_errors=True)
