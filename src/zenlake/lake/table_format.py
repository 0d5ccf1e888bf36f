# SPDX-License-Identifier: Apache-2.0
"""Interface of the table formats: one transaction adds files, removes files and sets numbers.

The numbers are the progress of landings and refreshes. A transaction fails if Zenlake has committed another one since the table
was opened. The caller then opens the table again, reads the numbers again, and decides again.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from zenlake.lake.layout import DataFile
from zenlake.tables.lake_reader import SnapshotFile

__all__ = ["SERIAL", "NotCommitted", "TableFormat"]

SERIAL = "commit"  # number of commits by Zenlake; every commit sets it, so two of them conflict


class NotCommitted(Exception):
    """The transaction was refused, or its outcome is unknown. The numbers of the table show whether it was committed."""


class TableFormat(Protocol):
    """A table at the version at which it was opened. It may not exist yet."""

    exists: bool

    def number(self, name: str) -> int | None:
        """Return a number that a commit has set, or None."""

    def files(self) -> list[SnapshotFile]:
        """Return the current files."""

    def schema(self) -> pa.Schema:
        """Return the columns of the table, without `day`."""

    def commit(
        self, add: Sequence[DataFile], remove: Sequence[SnapshotFile], numbers: Mapping[str, int], schema: pa.Schema,
        is_change: bool = True,
    ) -> None:  # fmt: skip
        """Commit one transaction. The table is created if necessary, and gains the columns of `schema` that it lacks.

        Args:
            add: Files in the folder of the table.
            remove: Files of the table, at this version.
            numbers: Numbers to set.
            schema: Columns of the added files.
            is_change: Whether the rows of the table change. A compaction does not change them.

        Raises:
            NotCommitted: Another transaction was faster, or the store did not confirm this one.
            LakeError: A column has another type than in the table.
        """

    def remove_orphans(self, hours: float) -> list[str]:
        """Remove files that the table has not named for `hours`. Return their paths."""
