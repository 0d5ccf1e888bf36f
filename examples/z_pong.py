# SPDX-License-Identifier: Apache-2.0
"""Send the values of z_ping back."""

import time

from common import config, parser

import zenlake

options = parser(__doc__)
args = options.parse_args()

with zenlake.open(config(args)) as session:
    pong = session.declare_publisher("test/pong", congestion_control=zenlake.CongestionControl.BLOCK, express=True)
    answer = zenlake.handlers.Callback(lambda sample: pong.put(sample.payload), indirect=False)
    subscriber = session.declare_subscriber("test/ping", answer)
    print("Press Ctrl-C to quit", flush=True)
    while True:
        time.sleep(1)
