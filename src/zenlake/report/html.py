# SPDX-License-Identifier: Apache-2.0
"""One file out of figures, style, scripts and the chart library.

What travelled on the network is hostile until shown otherwise: figures are embedded as JSON in a script element that is not run,
with every character escaped that could end it, and the page puts them on show as text only. A content security policy allows the
scripts and the style that are in this file, by their digests, and nothing else: no evaluation, no network.
"""

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from zenlake import __version__

SCRIPTS = (
    "vendor/echarts.min.js",
    "page/format.js",
    "page/table.js",
    "page/charts.js",
    "page/sections.js",
    "page/main.js",
)
STYLE = "page/report.css"


def render(told: dict[str, Any]) -> str:
    scripts = [_text(name) for name in SCRIPTS]
    style = _text(STYLE)
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; style-src {_digest(style)}; "
        "style-src-attr 'none'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    shell = _text("page/shell.html")
    parts = {
        "policy": policy,
        "style": style,
        "data": embedded({"version": __version__, **told}),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    for name, part in parts.items():
        before, mark, after = shell.partition(f"<!--{name}-->")  # each mark once, never inside what was put in
        assert mark, name
        shell = before + part + after
    return shell


def embedded(value: Any) -> str:
    """JSON in which no character can end the element around it or start another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(name: str) -> str:
    text = (files("zenlake.report") / name).read_text(encoding="utf-8")
    assert "</script" not in text or name.endswith(".html"), f"{name} would end its own element"
    return text


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
