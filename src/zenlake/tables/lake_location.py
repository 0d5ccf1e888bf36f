# SPDX-License-Identifier: Apache-2.0
"""Location of a lake: a local folder, or a folder of an object store, for pyarrow, `deltalake` and `pyiceberg`.

Credentials come from the usual sources of these libraries, or from the address (`s3://key:secret@bucket/lake?endpoint_override=...`).
`address` and `uri` contain no credentials, so they may be printed.
"""

import hashlib
import json
import os
import re
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from zenlake.errors import LakeError
from zenlake.log.file_access import AZURE, open_store

__all__ = ["DAY", "MARKER", "VERSION", "Location", "import_deltalake", "is_inside", "read_marker"]

MARKER = "zenlake-lake.json"
VERSION = 2
DAY = "day"


class Location:
    """A folder, local or in a store."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        self.given = text
        self.is_local = "://" not in text
        self._query: dict[str, str] = {}
        self._user: tuple[str, str] | None = None
        if self.is_local:
            self.path = os.path.abspath(text)
            self.address = self.path
            return
        parts = urlsplit(text)
        self._query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        user, _, host = parts.netloc.rpartition("@")
        if parts.scheme in AZURE:  # container@account
            self.address, bucket = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), user or host
        else:
            self.address, bucket = f"{parts.scheme}://{host}{parts.path}".rstrip("/"), host
            if user:
                self._user = unquote(parts.username or ""), unquote(parts.password or "")
        self.path = f"{bucket}{parts.path}".rstrip("/")

    @cached_property
    def filesystem(self) -> pafs.FileSystem:
        if self.is_local:
            return pafs.LocalFileSystem()
        try:
            return open_store(self.given)[0]
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"cannot open {self.address}: {first_line(error)}") from None

    def uri(self, *names: str) -> str:
        """Return the local path, or the address of the store, of a name below this folder."""
        return "/".join((self.address, *names))

    def at(self, *names: str) -> str:
        """Return the path of a name below this folder in `filesystem`."""
        return "/".join((self.path, *names))

    def strip(self, uri: str) -> str:
        """Convert a path or URI that a table format reports to a path in `filesystem`."""
        if not self.is_local and uri.startswith(f"{self.address}/"):
            return self.at(uri.removeprefix(f"{self.address}/"))
        plain = unquote(uri) if uri.startswith("file:") else uri
        return plain.removeprefix("file://").partition("://")[2] or plain.removeprefix("file://")

    def read(self, *names: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        try:
            with self.filesystem.open_input_stream(self.at(*names)) as file:
                data: bytes = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (pa.ArrowException, OSError) as error:
            raise LakeError(f"cannot read {self.uri(*names)}: {first_line(error)}") from None
        return data

    def check_bucket(self) -> None:
        """Raise if the bucket does not exist, and the credentials suffice to find out."""
        bucket = self.path.partition("/")[0]
        if not self.is_local:
            with suppress(pa.ArrowException, OSError):
                if self.filesystem.get_file_info(bucket).type != pafs.FileType.NotFound:
                    return
                raise LakeError(f"{self.address}: the bucket {bucket!r} does not exist; create it first")

    @property
    def storage_options(self) -> dict[str, str] | None:
        """Return the options of `deltalake`, which reads the remaining ones from the environment."""
        if self.is_local:
            return None
        found = {}
        if self._user is not None:
            found = {"AWS_ACCESS_KEY_ID": self._user[0], "AWS_SECRET_ACCESS_KEY": self._user[1]}
        if "region" in self._query:
            found["AWS_REGION"] = self._query["region"]
        endpoint = self._endpoint()
        if endpoint is not None:
            found["AWS_ENDPOINT_URL"] = endpoint
            if endpoint.startswith("http://"):
                found["AWS_ALLOW_HTTP"] = "true"
        return found

    @property
    def iceberg_properties(self) -> dict[str, str]:
        """Return the file properties of `pyiceberg`, for a catalog without configuration."""
        if self.is_local:
            return {}
        found = {}
        endpoint = self._endpoint()
        if endpoint is not None:
            found["s3.endpoint"] = endpoint
        if self._user is not None:
            found |= {"s3.access-key-id": self._user[0], "s3.secret-access-key": self._user[1]}
        region = self._query.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region is not None:
            found["s3.region"] = region
        return found

    def _endpoint(self) -> str | None:
        if not self.address.startswith("s3:"):
            return None
        if "endpoint_override" not in self._query:
            return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        where = self._query["endpoint_override"]
        return where if "://" in where else f"{self._query.get('scheme', 'https')}://{where}"

    @property
    def state(self) -> Path:
        """Return a local folder for checkpoints and the catalog of a lake in a store."""
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        name = hashlib.blake2b(self.address.encode(), digest_size=8).hexdigest()
        return Path(base) / "zenlake" / name


def read_marker(location: Location) -> dict[str, Any] | None:
    """Return the description of the lake at a location, or None. Raise if this version does not support it."""
    data = location.read(MARKER)
    if data is None:
        location.check_bucket()
        return None
    path = location.uri(MARKER)
    try:
        found: dict[str, Any] = json.loads(data)
        version = found["version"]
        found["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"cannot read {path} ({error}); restore it from a backup") from None
    if version > VERSION:
        raise LakeError(f"{path} has version {version}; this version of Zenlake reads up to {VERSION}: upgrade Zenlake")
    return found


def is_inside(folder: str, path: str) -> bool:
    """Return whether a path is below a folder, also after symbolic links."""
    return Path(path).resolve().is_relative_to(Path(folder).resolve())


def import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise ImportError(
            "lakes of format delta need deltalake, which is not installed: pip install 'zenlake[delta]'"
        ) from None
    return deltalake


def import_catalogs() -> Any:
    try:
        import pyiceberg.catalog
        import pyiceberg.catalog.sql
    except ImportError:
        raise ImportError(
            "lakes of format iceberg need pyiceberg, which is not installed: pip install 'zenlake[iceberg]'"
        ) from None
    return pyiceberg.catalog


def first_line(error: BaseException) -> str:
    """Return the first line of an error of a library, without the rest of a long report.

    `deltalake` reports a chain of causes, in colours. The last one is added, or the message of the store in it.
    """
    text = re.sub(r"\x1b\[\d+m", "", str(error) or type(error).__name__).strip()
    first, _, rest = text.partition("\n")
    message = re.search(r"<Message>(.*?)</Message>", rest, re.DOTALL)
    cause = (
        message[1] if message else rest.rpartition("\u21b3")[2].strip().partition("\n")[0] if "\u21b3" in rest else ""
    )
    return f"{first}: {cause}" if cause else first
