# SPDX-License-Identifier: Apache-2.0
"""Declare a liveliness token until the program ends."""

import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="group1/zenlake")
args = options.parse_args()

with zenlake.open(config(args)) as session, session.liveliness().declare_token(args.key):
    print("Press Ctrl-C to quit", flush=True)
    while True:
        time.sleep(1)
