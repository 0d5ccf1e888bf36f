# SPDX-License-Identifier: Apache-2.0
"""Publish a value every second, and report whether there are matching subscribers."""

import itertools
import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/pub")
options.add_argument("-p", "--payload", default="Pub from Zenlake!")
options.add_argument("-n", "--count", type=int, help="stop after this many values")
options.add_argument("--interval", type=float, default=1.0)
args = options.parse_args()

with zenlake.open(config(args)) as session:
    publisher = session.declare_publisher(args.key)
    publisher.declare_matching_listener(
        lambda status: print("matching subscribers" if status.matching else "no more matching subscribers", flush=True)
    )
    for number in itertools.count() if args.count is None else range(args.count):
        time.sleep(args.interval)
        text = f"[{number:4}] {args.payload}"
        print(f"Putting {args.key}: {text!r}", flush=True)
        publisher.put(text, attachment=str(number))
