# SPDX-License-Identifier: Apache-2.0
# Any bytes are explained. The rows are ordered and contiguous: each byte up to the error, if any, is in exactly one row.
# There is an error exactly where the reader finds one, or inside a field that the reader does not open.
"""`zenlake explain`."""

from fuzz import batch
from zenlake.errors import DecodeError
from zenlake.wire.batch_reader import messages
from zenlake.wire.explain import explain

CORPUS = batch.CORPUS

INNER = ("LINKSTATE.", "AUTH.", "PUBKEY.", "TIMESTAMP_STACK.", "INIT.exts.qos_link")


def check(data: bytes) -> None:
    if not data:
        return
    explanation = explain(data)
    str(explanation)
    at = 0
    for row in explanation.rows:
        if row.kind != "error":
            assert row.at == at
            assert row.data == data[at : at + len(row.data)]
            at += len(row.data)
    if explanation.error is None:
        assert at == len(data)
        assert messages(data)
    elif not explanation.error.field.startswith(INNER):
        try:
            messages(data)
        except DecodeError as error:
            assert error.args == explanation.error.args
        else:
            raise AssertionError(f"only explain refused: {explanation.error}")
