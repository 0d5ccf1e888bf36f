# SPDX-License-Identifier: Apache-2.0
"""Publish as fast as possible."""

import itertools

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("size", type=int, nargs="?", default=8)
options.add_argument("-n", "--count", type=int)
args = options.parse_args()

payload = bytes(args.size)
with zenlake.open(config(args)) as session:
    publisher = session.declare_publisher("test/thr", congestion_control=zenlake.CongestionControl.BLOCK)
    for _ in itertools.count() if args.count is None else range(args.count):
        publisher.put(payload)
