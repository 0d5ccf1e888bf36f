# SPDX-License-Identifier: Apache-2.0
"""Publish one value."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/put")
options.add_argument("-p", "--payload", default="Put from Zenlake!")
args = options.parse_args()

with zenlake.open(config(args)) as session:
    print(f"Putting {args.key}: {args.payload!r}")
    session.put(args.key, args.payload)
