# SPDX-License-Identifier: Apache-2.0
"""A Zenoh query as a table: `spark.read.format("zenoh").option("connect", ...).option("selector", "a/**")`.

Each reply is a row, with the columns of `samples` that a reply has. One task sends the query, each time that Spark reads. An
error reply fails the task.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from zenlake.spark.options import Options

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = {
    "connect": "endpoints to connect to, separated by commas",
    "config": "Zenoh configuration: JSON5 text, or a file that exists on every executor",
    "selector": "selector of the query, like robots/*/battery?since=1h",
    "columns": "columns to return, separated by commas; default: all",
    "timeout": "seconds to wait for replies; default 10",
    "target": "queryables to query: best_matching, all or all_complete; default best_matching",
    "consolidation": "consolidation of several replies with the same key: auto, none, monotonic or latest; default auto",
}
TARGETS = ("best_matching", "all", "all_complete")
CONSOLIDATIONS = ("auto", "none", "monotonic", "latest")


@dataclass(frozen=True)
class QueryReaderOptions:
    """Validated options. Sent to the task."""

    connect: list[str]
    config: str | None
    selector: str
    columns: list[str]
    timeout: float
    target: str
    consolidation: str

    @property
    def schema(self) -> "pa.Schema":
        from zenlake.columns.schemas import select_schema

        return select_schema("samples", self.columns)


def parse_query(options: Options) -> QueryReaderOptions:
    """Validate the options. Raise one line about the first error."""
    from zenlake.columns.live_samples import COLUMNS
    from zenlake.core.selector import Selector
    from zenlake.errors import ZenlakeError
    from zenlake.spark.network_sink import make_config

    selector = options.text("selector") or ""
    try:
        Selector(selector)
    except ZenlakeError as error:
        options.refuse_option("selector", error)
    connect, config = options.names("connect") or [], options.text("config")
    try:
        make_config(connect, config)
    except ZenlakeError as error:
        options.refuse(str(error))
    question = QueryReaderOptions(
        connect,
        config,
        selector,
        [],
        options.above_zero("timeout", "seconds") or 10.0,
        options.choice("target", TARGETS, "best_matching"),
        options.choice("consolidation", CONSOLIDATIONS, "auto"),
    )
    return with_columns(options, question, options.names("columns") or list(COLUMNS))


def with_columns(options: Options, question: QueryReaderOptions, columns: list[str]) -> QueryReaderOptions:
    """Return the same options for other columns."""
    from zenlake.columns.live_samples import COLUMNS

    for name in columns:
        if name not in COLUMNS:
            options.refuse(f"a reply has no column {name!r}; expected one of {', '.join(COLUMNS)}")
    return replace(question, columns=columns)


class QueryReader(DataSourceReader):  # PySpark is not checked
    """Reader that sends the query on an executor."""

    def __init__(self, question: QueryReaderOptions) -> None:
        self.question = question

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from zenlake.core.enums import ConsolidationMode, QueryTarget
        from zenlake.spark.network_sink import open_session

        asked = self.question
        with open_session(asked.connect, asked.config) as session:
            answers = session.get_table(
                asked.selector,
                timeout=asked.timeout,
                target=QueryTarget[asked.target.upper()],
                consolidation=ConsolidationMode[asked.consolidation.upper()],
            )
        yield from answers.select(asked.columns).to_batches()
