# SPDX-License-Identifier: Apache-2.0
"""Print every sample of a key expression, with a callback."""

import time

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/**")
args = options.parse_args()


def show(sample):
    attachment = "" if sample.attachment is None else f" ({sample.attachment})"
    print(f">> {sample.kind} {sample.key_expr}: {sample.payload}{attachment}", flush=True)


with zenlake.open(config(args)) as session:
    session.declare_subscriber(args.key, show)
    print("Press Ctrl-C to quit", flush=True)
    while True:
        time.sleep(1)
