# SPDX-License-Identifier: Apache-2.0
"""File access of log readers: a local folder, memory-mapped, or any filesystem of `pyarrow.fs`."""

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from zenlake.log.layout import BLOCK, INDEX_HEAD, RECORD, SEALED, BlockRecord

__all__ = ["AZURE", "Files", "Index", "FileReader", "open_store"]

AZURE = ("abfs", "abfss")  # schemes


def open_store(address: str) -> tuple[pafs.FileSystem, str]:
    """Open the file system of an address such as `s3://bucket/log`. Return it, and the path in it."""
    parts = urlsplit(address)
    if parts.scheme not in AZURE:
        filesystem, path = pafs.FileSystem.from_uri(address)
        return filesystem, path
    # `from_uri` knows neither account keys nor other endpoints. These variables are those of `deltalake`.
    account = (
        (parts.hostname or "").partition(".")[0] if parts.username else os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    )
    if not account:
        raise OSError(
            "unknown Azure account; set AZURE_STORAGE_ACCOUNT_NAME, or write CONTAINER@ACCOUNT.dfs.core.windows.net"
        )
    endpoint = urlsplit(os.environ.get("AZURE_STORAGE_ENDPOINT", ""))
    options = {
        "account_key": os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"), "sas_token": os.environ.get("AZURE_STORAGE_SAS_TOKEN"),
        **{f"{kind}_storage_authority": endpoint.netloc or None for kind in ("blob", "dfs")},
        **{f"{kind}_storage_scheme": endpoint.scheme or None for kind in ("blob", "dfs")},
    }  # fmt: skip
    return pafs.AzureFileSystem(account, **options), f"{parts.username or parts.hostname}{parts.path}"


class FileReader:
    """One file, read on demand."""

    def __init__(self, file: pa.NativeFile, mapped: bool) -> None:
        self._file = file
        self.mapped = mapped
        self._whole = file.read_buffer() if mapped else None
        self.size: int = self._whole.size if self._whole is not None else file.size()

    def read(self, at: int, size: int) -> pa.Buffer:
        if self._whole is not None:
            return self._whole[at : at + size]
        return pa.py_buffer(self._file.read_at(size, at))


class Files:
    """A local or remote folder, read-only."""

    def __init__(self, path: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None) -> None:
        text = os.fspath(path)
        if filesystem is None and "://" in text:
            filesystem, text = open_store(text)
        self.path = text.rstrip("/") or "/"
        self.local = filesystem is None or isinstance(filesystem, pafs.LocalFileSystem)
        self.filesystem = filesystem or pafs.LocalFileSystem()

    def exists(self, *names: str) -> bool:
        return bool(self.filesystem.get_file_info(self._at(*names)).type == pafs.FileType.File)

    def folders(self) -> list[str]:
        return sorted(info.base_name for info in self._list() if info.type == pafs.FileType.Directory)

    def names(self, *folder: str) -> list[str]:
        return sorted(info.base_name for info in self._list(*folder) if info.type == pafs.FileType.File)

    def bytes(self, *names: str) -> bytes:
        with self.filesystem.open_input_stream(self._at(*names)) as file:
            data: bytes = file.read()
        return data

    def source(self, *names: str) -> FileReader:
        path = self._at(*names)
        if self.local:
            return FileReader(pa.memory_map(path), os.path.getsize(path) > 0)
        return FileReader(self.filesystem.open_input_file(path), False)

    def _at(self, *names: str) -> str:
        return "/".join((self.path, *names))

    def _list(self, *folder: str) -> list[pafs.FileInfo]:
        found: list[pafs.FileInfo] = self.filesystem.get_file_info(
            pafs.FileSelector(self._at(*folder), allow_not_found=True)
        )
        return found


class Index(Sequence[BlockRecord]):
    """Visible blocks of a segment. Records are read on demand."""

    def __init__(self, source: FileReader) -> None:
        self._source = source
        self._read: dict[int, BlockRecord | None] = {}
        count = (source.size - len(INDEX_HEAD)) // RECORD.size
        while count > 0 and self._record(count - 1) is None:
            count -= 1  # a power cut may leave zeros; the writer restores those records when it starts again
        last = self._record(count - 1) if count > 0 else None
        self.sealed = last is not None and last.kind == SEALED
        self._count = max(count, 0) - self.sealed

    def _record(self, i: int) -> BlockRecord | None:
        if i not in self._read:
            at = len(INDEX_HEAD) + i * RECORD.size
            self._read[i] = BlockRecord.unpack(bytes(self._source.read(at, RECORD.size)))
        return self._read[i]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> BlockRecord:  # type: ignore[override]
        if not 0 <= i < self._count:
            raise IndexError(i)
        record = self._record(i)
        if record is None or record.kind != BLOCK:
            raise IndexError(i)
        return record
