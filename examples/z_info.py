# SPDX-License-Identifier: Apache-2.0
"""Print the id of the session and of the connected nodes."""

from common import config, parser

import zenlake

options = parser(__doc__)
args = options.parse_args()

with zenlake.open(config(args)) as session:
    print(f"zid: {session.info.zid()}")
    print(f"routers: {[str(zid) for zid in session.info.routers_zid()]}")
    print(f"peers: {[str(zid) for zid in session.info.peers_zid()]}")
    for link in session.info.links():
        print(f"link: {link.src} -> {link.dst}")
