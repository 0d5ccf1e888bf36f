# SPDX-License-Identifier: Apache-2.0
"""A lake and a log in Azure's emulator. It needs azurite 3.37 (npm) on the PATH; older ones ignore `startFrom`."""

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.fs as pafs
import pytest

import zenlake
from tests.lake.fixtures import recorded, rows
from tests.lake.test_commit import land, place
from zenlake.lake import Lake, LandingBatch, compact, remove_orphans
from zenlake.lake.store_check import check_store
from zenlake.log import Log
from zenlake.log.file_access import open_store
from zenlake.tables import query
from zenlake.tables.lake_location import Location

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # public, of the emulator
ADDRESS = "abfs://lake@devstoreaccount1.dfs.core.windows.net/tables"


@pytest.fixture
def azurite(monkeypatch, tmp_path):
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        program,
        "--inMemoryPersistence",
        "--silent",
        "--disableTelemetry",
        "--skipApiVersionCheck",
        "--blobPort",
        str(port),
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    for name, value in {
        "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1", "AZURE_STORAGE_ACCOUNT_KEY": KEY, "AZURE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/devstoreaccount1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.1)
    open_store(ADDRESS)[0].create_dir("lake")
    yield
    process.terminate()
    process.wait(30)


def test_an_address_of_azure_names_container_and_account():
    for address in (ADDRESS, ADDRESS.replace("abfs", "abfss"), "abfs://lake/tables"):
        location = Location(address)
        assert (location.address, location.path) == (address, "lake/tables")
        assert location.strip(location.uri("samples", "x.parquet")) == location.at("samples", "x.parquet")


@pytest.mark.usefixtures("azurite")
@pytest.mark.parametrize("address", [ADDRESS, "abfs://lake/short"])
def test_a_lake_and_a_log_in_azure(tmp_path, address):
    path = tmp_path / "log"
    recorded(path, size=12)
    pafs.copy_files(str(path), "lake/log", pafs.LocalFileSystem(), open_store(address)[0])
    assert dict(check_store(address)) == dict.fromkeys(("writing", "range reads", "listing", "conditional writes"), "")
    lake, log = Lake(address, create="delta"), Log(f"{Path(address).parent}/log".replace(":/", "://"))
    land(lake, log, LandingBatch("late", 0), start=place(log, 1 / 2), size=2000)
    land(lake, log, LandingBatch("all", 0), size=2000)
    assert rows(zenlake.read(address)) == rows(zenlake.read(path))
    assert query("select count(*) as n from samples", address).to_pylist() == [{"n": zenlake.read(path).num_rows}]
    done = compact(lake)[1]
    assert done.files > done.into > 0
    remove_orphans(lake, hours=0)
    assert rows(zenlake.read(address)) == rows(zenlake.read(path))
