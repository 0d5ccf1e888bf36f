# SPDX-License-Identifier: Apache-2.0
"""Delete a key."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/put")
args = options.parse_args()

with zenlake.open(config(args)) as session:
    print(f"Deleting {args.key}")
    session.delete(args.key)
