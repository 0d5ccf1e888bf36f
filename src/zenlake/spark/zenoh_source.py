# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh")`: read a log, query the network, and publish rows.

    spark.read.format("zenoh").load("lake/log")                                                   # a log: see log_source
    spark.read.format("zenoh").option("connect", "tcp/...").option("selector", "a/**").load()     # query: one row per reply
    df.write.format("zenoh").option("connect", "tcp/...").mode("append").save()                   # publish: one sample per row

Spark does not state whether a source is created for reading or writing. The options decide: `connect` without a path
and `subscribe` means the network.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from zenlake.spark.log_source import LogSource
from zenlake.spark.options import Options

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from zenlake.spark.network_sink import NetworkStreamWriter, NetworkWriter


class ZenohSource(LogSource):
    """The Spark data source `zenoh`."""

    def __init__(self, options: dict[str, str]) -> None:
        names = {name.lower() for name in options}
        self.on_network = "connect" in names and not names & {"subscribe", "path", "paths"}
        self.asks = "selector" in names
        if self.asks and not self.on_network:
            raise ValueError("zenoh: a query ('selector') needs the option 'connect'; remove the path and 'subscribe'")
        if not self.on_network:
            super().__init__(options)
            return
        from zenlake.spark import network_sink, query_reader

        DataSource.__init__(self, options)
        self.validated_options = Options(
            self.name(), options, query_reader.OPTIONS if self.asks else network_sink.OPTIONS
        )
        if self.asks:
            self.query_settings = query_reader.parse_query(self.validated_options)
        else:
            self.sink_settings = network_sink.make_writer(self.validated_options)

    def schema(self) -> "StructType | str":
        if not self.on_network:
            return super().schema()
        from zenlake.spark.schema_conversion import spark_schema

        self._must_ask()
        return spark_schema(self.query_settings.schema)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        if not self.on_network:
            return super().reader(schema)
        from zenlake.spark.query_reader import QueryReader, with_columns
        from zenlake.spark.schema_conversion import check_schema

        self._must_ask()
        check_schema(self.name(), "samples", schema)
        return QueryReader(with_columns(self.validated_options, self.query_settings, schema.fieldNames()))

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        if self.on_network:
            self.validated_options.refuse(
                "a stream cannot send a query or write; use spark.read with 'selector', or readStream with a log"
            )
        return super().streamReader(schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "NetworkWriter":
        from zenlake.spark.network_sink import NetworkWriter

        self._check_writing(schema, overwrite)
        return NetworkWriter(self.sink_settings)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "NetworkStreamWriter":
        from zenlake.spark.network_sink import NetworkStreamWriter

        self._check_writing(schema, overwrite)
        return NetworkStreamWriter(self.sink_settings)

    def _check_writing(self, schema: "StructType", overwrite: bool) -> None:
        from zenlake.spark.network_sink import check_columns

        if not self.on_network or self.asks:
            self.validated_options.refuse(
                "writing needs the option 'connect'; remove the path, 'subscribe' and 'selector'"
            )
        check_columns(self.validated_options, self.sink_settings, schema, overwrite)

    def _must_ask(self) -> None:
        if not self.asks:
            self.validated_options.refuse(
                "'connect' alone reads nothing; set 'selector' for a query, or 'subscribe' and a path to record"
            )
