# SPDX-License-Identifier: Apache-2.0
"""Send the same query every second."""

import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-s", "--selector", default="demo/example/**")
options.add_argument("-n", "--count", type=int, default=3)
args = options.parse_args()

selector = zenlake.Selector(args.selector)
with zenlake.open(config(args)) as session, session.declare_querier(selector.key_expr) as querier:
    for number in range(args.count):
        time.sleep(1)
        print(f"Asking {selector} ({number})", flush=True)
        for reply in querier.get(parameters=selector.parameters, payload=str(number)):
            print(f">> {reply.ok.payload if reply.ok else reply.err.payload}", flush=True)
