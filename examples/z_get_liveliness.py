# SPDX-License-Identifier: Apache-2.0
"""Print the liveliness tokens that are alive."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="group1/**")
args = options.parse_args()

with zenlake.open(config(args)) as session:
    for reply in session.liveliness().get(args.key):
        if reply.ok:
            print(f">> alive: {reply.ok.key_expr}", flush=True)
