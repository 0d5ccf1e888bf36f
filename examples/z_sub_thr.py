# SPDX-License-Identifier: Apache-2.0
"""Measure the throughput of z_pub_thr."""

import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-s", "--samples", type=int, default=10)
options.add_argument("-n", "--number", type=int, default=10000)
args = options.parse_args()


with zenlake.open(config(args)) as session, session.declare_subscriber("test/thr") as subscriber:
    print("Waiting", flush=True)
    for _ in range(args.samples):
        subscriber.recv()
        begin = time.perf_counter()
        for _ in range(args.number - 1):
            subscriber.recv()
        print(f"{args.number / (time.perf_counter() - begin):,.0f} messages/s", flush=True)
