# SPDX-License-Identifier: Apache-2.0
"""Print liveliness tokens that appear and disappear."""

from common import config, parser

import zenlake

options = parser(__doc__)
options.add_argument("-k", "--key", default="group1/**")
args = options.parse_args()

with (
    zenlake.open(config(args)) as session,
    session.liveliness().declare_subscriber(args.key, history=True) as subscriber,
):
    print("Press Ctrl-C to quit", flush=True)
    for sample in subscriber:
        print(f">> {'alive' if sample.kind is zenlake.SampleKind.PUT else 'gone'}: {sample.key_expr}", flush=True)
