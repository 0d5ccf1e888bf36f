# SPDX-License-Identifier: Apache-2.0
"""Print every sample of a key expression, with asyncio."""

import asyncio

from common import config, parser

import zenlake.aio

options = parser(__doc__)
options.add_argument("-k", "--key", default="demo/example/**")
args = options.parse_args()


async def main():
    async with zenlake.aio.open(config(args)) as session, await session.declare_subscriber(args.key) as subscriber:
        print("Press Ctrl-C to quit", flush=True)
        async for sample in subscriber:
            print(f">> {sample.key_expr}: {sample.payload}", flush=True)


asyncio.run(main())
