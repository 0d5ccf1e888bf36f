# SPDX-License-Identifier: Apache-2.0
"""Store the newest value of every key, and reply to queries."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/**")
args = options.parse_args()

store = {}


def remember(sample):
    print(f">> {sample.kind} {sample.key_expr}", flush=True)
    if sample.kind is zenlake.SampleKind.PUT:
        store[sample.key_expr] = sample
    else:
        store.pop(sample.key_expr, None)


with zenlake.open(config(args)) as session:
    session.declare_subscriber(args.key, remember)
    queryable = session.declare_queryable(args.key, complete=True)
    print("Press Ctrl-C to quit", flush=True)
    for query in queryable:
        with query:
            for key, sample in list(store.items()):
                if query.key_expr.intersects(key):
                    query.reply(key, sample.payload, encoding=sample.encoding, timestamp=sample.timestamp)
