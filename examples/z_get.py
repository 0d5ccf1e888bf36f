# SPDX-License-Identifier: Apache-2.0
"""Send a query and print the replies."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-s", "--selector", default="demo/example/**")
options.add_argument("-p", "--payload")
options.add_argument("-o", "--timeout", type=float, default=10.0)
args = options.parse_args()

with zenlake.open(config(args)) as session:
    print(f"Asking {args.selector}", flush=True)
    for reply in session.get(args.selector, payload=args.payload, timeout=args.timeout):
        if reply.ok:
            print(f">> {reply.ok.key_expr}: {reply.ok.payload}", flush=True)
        else:
            print(f">> error: {reply.err.payload}", flush=True)
