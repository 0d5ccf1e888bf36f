# SPDX-License-Identifier: Apache-2.0
"""One target of `fuzz.guided`, in its own process: TARGET, then arguments of libFuzzer."""

import sys

from fuzz.guided import run

run(sys.argv[1], sys.argv[2:])
