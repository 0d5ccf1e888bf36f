# SPDX-License-Identifier: Apache-2.0
"""Reply to every query on a key expression."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/queryable")
options.add_argument("-p", "--payload", default="Queryable from Zenlake!")
args = options.parse_args()

with zenlake.open(config(args)) as session, session.declare_queryable(args.key) as queryable:
    print("Press Ctrl-C to quit", flush=True)
    for query in queryable:
        with query:  # leaving the block sends the final reply
            print(f">> query {query.selector}", flush=True)
            query.reply(args.key, args.payload)
