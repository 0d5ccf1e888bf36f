# SPDX-License-Identifier: Apache-2.0
"""Poll the newest sample, with a ring channel of one."""

import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/**")
options.add_argument("--size", type=int, default=1)
options.add_argument("--interval", type=float, default=2.0)
args = options.parse_args()

with (
    zenlake.open(config(args)) as session,
    session.declare_subscriber(args.key, zenlake.handlers.RingChannel(args.size)) as subscriber,
):
    print("Press Ctrl-C to quit", flush=True)
    while True:
        time.sleep(args.interval)
        sample = subscriber.try_recv()
        print(">> nothing new" if sample is None else f">> {sample.key_expr}: {sample.payload}", flush=True)
