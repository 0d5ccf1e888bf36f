# SPDX-License-Identifier: Apache-2.0
"""Log to `samples`, compared with the bare decode of the same batches in memory, and the cost of writing a log.

Both are measured in CPU seconds. The aim is a ratio of 0.67: reading the log takes at most 1.5 times as long as the bare decode.
The pass that verifies checksums is measured alone. Its aim is 20 times the rate of the bare decode, or 5 % of its time.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bench.columns import batches, message
from bench.report import Ratio, Result, show
from zenlake.columns import Decoder
from zenlake.log import Log, Writer, decode_ranges
from zenlake.log.block import checksum


def write(path: Path, block: pa.RecordBatch) -> float:
    """Return the rows per CPU second."""
    data, directions = block.column("batch").to_pylist(), block.column("direction").to_pylist()
    start = time.process_time()
    with Writer(path, "bench", sync="sealed") as writer:
        face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
        for batch, direction in zip(data, directions, strict=True):
            writer.append(face, direction, batch)
    return len(data) / (time.process_time() - start)


def log_rate(path: Path, columns: list[str] | None) -> float:
    """Return the samples per CPU second, from the file."""
    log = Log(path)
    start = time.process_time()
    rows = 0
    for _, batch in decode_ranges(log, log.plan(), {"samples": columns}):
        rows += batch.num_rows
        del batch  # as in the bare decode: rows are dropped before the next block
    return rows / (time.process_time() - start)


def checksum_rate(path: Path, samples: int) -> float:
    """Return the samples per CPU second of the checksums alone, over mapped blocks that have left the CPU caches."""
    log = Log(path)
    blocks = [log.segment(part).read(block) for part in log.plan() for block in range(part.first, part.last)]
    start = time.process_time()
    for rows, about in blocks:
        checksum(rows, about.changes, about.withheld)
    return samples / (time.process_time() - start)


def bare_rate(block: pa.RecordBatch, columns: list[str] | None) -> float:
    """Return the samples per CPU second, from memory."""
    start = time.process_time()
    decoder = Decoder({"samples": columns})
    decoder.files = ["bench"]
    rows = 0
    for first in range(0, block.num_rows, 64):  # as in a stream: rows are dropped before the next block
        decoder.decode(block.slice(first, 64))
        rows += sum(batch.num_rows for batch in decoder.take()["samples"])
    rows += sum(batch.num_rows for batch in decoder.finish()["samples"])
    return rows / (time.process_time() - start)


def append_rate(path: Path, block: pa.RecordBatch) -> float:
    """The peer of writing: the same bytes appended to a file, a batch at a time, and synced at the end."""
    data = block.column("batch").to_pylist()
    start = time.process_time()
    with path.open("wb") as file:
        for batch in data:
            file.write(len(batch).to_bytes(2, "little") + batch)
    return len(data) / (time.process_time() - start)


def run(quick: bool) -> list[Result]:
    count, repeats = (400_000, 2) if quick else (2_000_000, 5)
    results = []
    folder = Path(tempfile.mkdtemp())
    try:
        for size in (8, 64, 1000):
            block = batches(message(size, False), max(count * 64 // max(size // 2, 64), 200_000))
            path = folder / f"log{size}"
            writing = [
                Ratio(write(folder / f"w{size}.{i}", block), append_rate(folder / "plain", block))
                for i in range(repeats)
            ]
            write(path, block)
            log_rate(path, None)
            ratios = [Ratio(log_rate(path, None), bare_rate(block, None)) for _ in range(repeats)]
            results.append(Result(f"log to samples, {size} bytes, all columns", "bare decode", ratios, 0.67))
            samples = sum(
                batch.num_rows for _, batch in decode_ranges(Log(path), Log(path).plan(), {"samples": ["key"]})
            )
            checksums = [Ratio(checksum_rate(path, samples), bare_rate(block, None)) for _ in range(repeats)]
            results.append(Result(f"checksums of a log, {size} bytes a sample", "bare decode", checksums, 20.0))
            results.append(Result(f"batches to log, {size} bytes a sample", "plain file", writing))
    finally:
        shutil.rmtree(folder)
    return results


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
