# SPDX-License-Identifier: Apache-2.0
"""Single-file HTML: figures, style, scripts and the chart library.

Safety: data from the network is untrusted. Figures are embedded as JSON in a script element that is not executed, and every
character that could end the element is escaped. The page displays figures only as text. A content security policy allows
only the scripts and the style of this file, by their digests: no evaluation, no network access.
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


def render(figures: dict[str, Any]) -> str:
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
        "data": embed({"version": __version__, **figures}),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    for name, part in parts.items():
        before, mark, after = shell.partition(f"<!--{name}-->")  # each placeholder once, never inside inserted text
        assert mark, name
        shell = before + part + after
    return shell


def embed(value: Any) -> str:
    """Return JSON without characters that could end the enclosing element or start another."""
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
