# SPDX-License-Identifier: Apache-2.0
"""Checks of an object store: whether it has the properties that `land` needs."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from zenlake.errors import LakeError
from zenlake.tables.lake_location import Location, first_line, import_deltalake

__all__ = ["check_conditional_writes", "check_store"]


WRITERS = 6
ROUNDS = 5  # several, because on a busy machine the commits of one round may not overlap


def check_conditional_writes(location: Location) -> None:
    """Raise unless only one of several concurrent commits of the same version succeeds.

    The check makes a small Delta table in the folder, and removes it. A store that ignores conditional writes would overwrite
    the commit of another driver, and so lose its rows.

    Raises:
        LakeError: The store cannot be written, or it ignores conditional writes.
    """
    delta = import_deltalake()
    name = f"_check-{uuid.uuid4().hex[:12]}"
    uri, options = location.uri(name), location.storage_options
    schema = pa.schema([("n", pa.int64())])
    together = threading.Barrier(WRITERS)

    def commit(table: Any) -> bool:
        known = delta.CommitProperties(app_transactions=[delta.Transaction("zenlake/check", table.version() + 1)])
        together.wait()
        try:
            table.create_write_transaction([], "append", schema, commit_properties=known)
        except delta.exceptions.DeltaError:  # refused, also if the faster commit is not visible yet
            return False
        return True

    try:
        delta.DeltaTable.create(uri, schema, storage_options=options)
        committed = 1
        for _ in range(ROUNDS):
            tables = [delta.DeltaTable(uri, storage_options=options) for _ in range(WRITERS)]
            with ThreadPoolExecutor(WRITERS) as pool:
                committed = max(committed, sum(pool.map(commit, tables)))
    except Exception as error:  # of deltalake, which has no common base class
        raise LakeError(f"cannot write to {location.address}: {first_line(error)}") from None
    finally:
        with suppress(OSError, pa.ArrowException, LakeError):
            location.filesystem.delete_dir(location.at(name))
    if committed != 1:
        raise LakeError(
            f"{location.address} ignores conditional writes (If-None-Match), so two landings would overwrite each other; "
            "use a store that supports them, such as S3, GCS, Azure, MinIO or Ceph"
        )


def check_store(address: str) -> Iterator[tuple[str, str]]:
    """Check an address of a store. Yield the name of each check, and the error or an empty text."""
    location = Location(address)
    path = location.at(f"_check-{uuid.uuid4().hex[:12]}")

    def write() -> None:
        with location.filesystem.open_output_stream(path) as file:
            file.write(bytes(range(256)))

    def read() -> None:
        with location.filesystem.open_input_file(path) as file:
            if file.read_at(16, 128) != bytes(range(128, 144)):
                raise OSError("a range read returned other bytes")

    def list_() -> None:
        found = location.filesystem.get_file_info(pafs.FileSelector(location.path))
        if path not in [info.path for info in found]:
            raise OSError("a new file is not listed")

    checks = (
        ("writing", write), ("range reads", read), ("listing", list_),
        ("conditional writes", lambda: check_conditional_writes(location)),
    )  # fmt: skip
    try:
        for name, check in checks:
            try:
                check()
            except (OSError, pa.ArrowException, LakeError) as error:
                yield name, first_line(error)
            else:
                yield name, ""
    finally:
        with suppress(OSError, pa.ArrowException, LakeError):
            location.filesystem.delete_file(path)
