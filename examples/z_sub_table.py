# SPDX-License-Identifier: Apache-2.0
"""Receive samples as Arrow record batches."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/**")
options.add_argument("--rows", type=int, default=10000)
args = options.parse_args()

with (
    zenlake.open(config(args)) as session,
    session.declare_subscriber(args.key, zenlake.handlers.ArrowChannel(args.rows, age=0.5)) as subscriber,
):
    print("Press Ctrl-C to quit", flush=True)
    for batch in subscriber:
        print(f">> {batch.num_rows} rows: {batch['key'].unique().to_pylist()[:3]}", flush=True)
