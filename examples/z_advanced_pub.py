# SPDX-License-Identifier: Apache-2.0
"""Publish a value every second, with a cache for late subscribers."""

import time

from common import config, parser

import zenlake
from zenlake.ext import CacheConfig, MissDetectionConfig, declare_advanced_publisher

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/advanced")
options.add_argument("-i", "--history", type=int, default=3)
options.add_argument("--interval", type=float, default=1.0)
options.add_argument("-n", "--count", type=int, default=1000)
args = options.parse_args()

with zenlake.open(config(args)) as session:
    publisher = declare_advanced_publisher(
        session,
        args.key,
        cache=CacheConfig(max_samples=args.history),
        sample_miss_detection=MissDetectionConfig(heartbeat=0.5),
        publisher_detection=True,
    )
    for number in range(args.count):
        publisher.put(f"[{number}] advanced")
        print(f"Put {number}", flush=True)
        time.sleep(args.interval)
