# SPDX-License-Identifier: Apache-2.0
"""Subscribe with history, and recover missed samples."""

from common import config, parser

import zenlake
from zenlake.ext import HistoryConfig, RecoveryConfig, declare_advanced_subscriber

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/**")
args = options.parse_args()

with zenlake.open(config(args)) as session:
    subscriber = declare_advanced_subscriber(
        session,
        args.key,
        history=HistoryConfig(detect_late_publishers=True),
        recovery=RecoveryConfig(heartbeat=True),
    )
    subscriber.sample_miss_listener(lambda miss: print(f">> lost {miss.nb} of {miss.source}", flush=True))
    print("Press Ctrl-C to quit", flush=True)
    for sample in subscriber:
        print(f">> {sample.key_expr}: {sample.payload}", flush=True)
