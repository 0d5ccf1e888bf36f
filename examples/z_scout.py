# SPDX-License-Identifier: Apache-2.0
"""Scout for one second, and print the nodes found."""

import threading

from common import config, parser

import zenlake

options = parser(__doc__)
args = options.parse_args()

with zenlake.scout(what="router|peer", config=config(args)) as scout:
    threading.Timer(1.0, scout.stop).start()
    for hello in scout.handler:
        print(hello, flush=True)
