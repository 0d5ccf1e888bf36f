# SPDX-License-Identifier: Apache-2.0
"""Instructions per message, counted by valgrind's callgrind. A busy machine does not affect them.

    python -m bench.instructions [NAME ...]

Each workload runs once and four times, in its own process. A third of the difference is the cost of one run, without the start of
the interpreter. Each workload takes one or two minutes. valgrind is in every distribution (`apt-get install valgrind`).
`callgrind_annotate` shows the instructions by line, from the files that `--keep` leaves.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from bench.columns import KEY, THREE, Stream, declaration, encode_rate, fleet, free_port, message

COUNT = 60_000  # messages


def decoding(full: bool, columns: list[str] | None) -> Callable[[], object]:
    stream = Stream(fleet(64, full), columns)
    return lambda: [stream.decode() for _ in range(COUNT // stream.ROWS)]


def encoding() -> Callable[[], object]:
    import pyarrow as pa

    samples = pa.record_batch({"key": pa.array([KEY] * COUNT), "payload": pa.array([b"x" * 64] * COUNT)})
    return lambda: encode_rate(samples)


def capture() -> Callable[[], object]:
    from bench.capture import Connection, small, with_zenlake, write

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "packets.pcap")
    connection = Connection(0)
    write(path, [iter([*connection.handshake(), *small(connection, COUNT)])])
    return lambda: (with_zenlake(path, None), folder)  # the folder is removed with its last reference


def callback() -> Callable[[], object]:
    """Receive samples of one key over loopback in a callback that reads key and payload."""
    import zenlake
    from bench import raw
    from zenlake.wire.transport import Frame

    port, each = free_port(), 1000
    config = zenlake.Config.from_json5(
        f'{{mode: "peer", listen: {{endpoints: ["tcp/127.0.0.1:{port}"]}}, scouting: {{multicast: {{enabled: false}}}}}}'
    )
    session = zenlake.open(config)
    body, link = message(8, False) * each, raw.opened(port)
    link.settimeout(None)
    raw.send(link, declaration())
    last, numbers = threading.Event(), itertools.count()
    left = 0

    def reads(sample: zenlake.Sample) -> None:
        nonlocal left
        left -= 1
        _ = sample.key_expr, bytes(sample.payload)
        if left == 0:
            last.set()

    subscriber = session.declare_subscriber("**", reads)

    def work() -> object:
        nonlocal left
        left = COUNT
        last.clear()
        for _ in range(COUNT // each):
            raw.send(link, Frame(sn=next(numbers)).encode() + body)
        return last.wait(), subscriber

    return work


WORKS: dict[str, Callable[[], Callable[[], object]]] = {
    "plain": lambda: decoding(False, None),
    "full": lambda: decoding(True, None),
    "three": lambda: decoding(False, THREE),
    "encode": encoding,
    "capture": capture,
    "callback": callback,
}


def counted(name: str, times: int, keep: bool) -> int:
    out = f"callgrind.{name}.{times}.out" if keep else os.devnull
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable, "-m", __spec__.name]
    # NumPy's threads count as well while they wait for work
    environment = os.environ | {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--run", name, str(times)], env=environment, capture_output=True, text=True)
    found = re.search(r"refs:\s+([\d,]+)", done.stderr)
    if done.returncode or found is None:
        sys.exit(f"{name} could not be counted: {done.stderr.strip().splitlines()[-1]}")
    return int(found[1].replace(",", ""))


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--run"]:
        work = WORKS[words[1]]()
        for _ in range(int(words[2])):
            work()
        return
    wrong = [word for word in words if word not in (*WORKS, "--keep")]
    if wrong:
        sys.exit(f"no work {wrong[0]!r}; there are {', '.join(WORKS)}, and --keep")
    if shutil.which("valgrind") is None:
        sys.exit("there is no valgrind here: install it, for instance with apt-get install valgrind")
    for name in [name for name in WORKS if name in words] or WORKS:
        once, four = (counted(name, times, "--keep" in words) for times in (1, 4))
        print(f"{name:<8} {(four - once) / 3 / COUNT:8,.0f} instructions a message", flush=True)


if __name__ == "__main__":
    main()
