# SPDX-License-Identifier: Apache-2.0
"""Session options that all examples share, with the names of zenoh-python."""

import argparse
import json

import zenlake


def parser(description):
    made = argparse.ArgumentParser(description=description)
    made.add_argument("-m", "--mode", choices=["client", "peer", "router"], help="mode of the session; default peer")
    made.add_argument(
        "-e", "--connect", action="append", metavar="ENDPOINT", help="connect to this endpoint, like tcp/127.0.0.1:7447"
    )
    made.add_argument(
        "-l", "--listen", action="append", metavar="ENDPOINT", help="listen on this endpoint, like tcp/127.0.0.1:7447"
    )
    made.add_argument("-c", "--config", metavar="FILE", help="configuration file in JSON5")
    made.add_argument("--no-multicast-scouting", action="store_true", help="do not search for nodes by multicast")
    made.add_argument(
        "--cfg",
        action="append",
        default=[],
        metavar="KEY:VALUE",
        help="set another key of the configuration to a JSON5 value; repeatable",
    )
    return made


def config(args):
    made = zenlake.Config.from_file(args.config) if args.config else zenlake.Config()
    for key, value in (("mode", args.mode), ("connect/endpoints", args.connect), ("listen/endpoints", args.listen)):
        if value is not None:
            made.insert_json5(key, json.dumps(value))
    if args.no_multicast_scouting:
        made.insert_json5("scouting/multicast/enabled", "false")
    for setting in args.cfg:
        made.insert_json5(*setting.split(":", 1))
    return made
