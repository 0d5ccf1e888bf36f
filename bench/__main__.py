# SPDX-License-Identifier: Apache-2.0
"""`make bench`: every benchmark against its peer, ratios first. `--quick` takes a few minutes; names choose some."""

import importlib
import sys

from bench.report import save, show

NAMES = ["columns", "capture", "log", "tap", "transport", "router", "crowd", "api", "land"]

quick = "--quick" in sys.argv
chosen = [name for name in sys.argv[1:] if not name.startswith("-")] or NAMES
wrong = [name for name in chosen if name not in NAMES]
if wrong:
    sys.exit(f"no benchmark {wrong[0]!r}; there are {', '.join(NAMES)}")
for name in chosen:
    module = importlib.import_module(f"bench.{name}")
    results = module.run(quick)
    show(results)
    print(f"saved as {save(name, results)}")
