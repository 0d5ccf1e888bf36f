# SPDX-License-Identifier: Apache-2.0
"""Measure round-trip times. Needs z_pong on the other side."""

import statistics
import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("--size", type=int, default=8)
options.add_argument("-n", "--count", type=int, default=100)
args = options.parse_args()

payload = bytes(args.size)
with zenlake.open(config(args)) as session:
    pongs = session.declare_subscriber("test/pong")
    ping = session.declare_publisher("test/ping", congestion_control=zenlake.CongestionControl.BLOCK, express=True)
    while not ping.matching_status.matching:
        time.sleep(0.01)
    times = []
    for _ in range(args.count):
        begin = time.perf_counter()
        ping.put(payload)
        pongs.recv()
        times.append(time.perf_counter() - begin)
    print(f"{args.size} bytes, {args.count} times, median {statistics.median(times) * 1e6:.0f} us", flush=True)
