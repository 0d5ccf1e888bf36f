# SPDX-License-Identifier: Apache-2.0
"""Redaction of secrets in errors, `repr`, logs, reports and query plans.

A secret is the value of a name that ends in one of ENDINGS. Such names occur in a configuration (JSON5, YAML), in an endpoint
(`tls/host:7447#connect_private_key_base64=...`) and in an option of the command line (`password=...`). The user and password of
an address (`s3://key:secret@bucket`) are secrets too.
"""

from typing import Any

__all__ = ["HIDDEN", "is_secret", "mentions_secret", "redact", "redact_value"]

HIDDEN = "***"
ENDINGS = ("password", "passwd", "secret", "secret_key", "token", "private_key_pem", "_base64")
# A name, a sign and a value in quotes or up to a separator. Compiled on first use: most programs never need it.
_USER = r"://[^/\s@]+@"
_NAME = rf"[\w/.-]* (?:{'|'.join(ENDINGS)}) [\"']? \s* [=:] \s*"
_PAIR = rf"""(?ix) ({_NAME}) (?: "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [^\s;,#"'`}}]+ )"""


def is_secret(path: str) -> bool:
    """Return whether the value of this name, or of the key at this path, is a secret."""
    return path.lower().endswith(ENDINGS)


def mentions_secret(text: str) -> bool:
    """Return whether any part of the text may be a secret: then no part of it is quoted."""
    lower = text.lower()
    return any(ending in lower for ending in ENDINGS)


def redact(text: str) -> str:
    """Return the text with HIDDEN in the place of each secret."""
    has_user = "://" in text and "@" in text
    if not has_user and not mentions_secret(text):
        return text
    import re

    if has_user:
        text = re.sub(_USER, f"://{HIDDEN}@", text)
    return re.sub(_PAIR, rf"\1{HIDDEN}", text)


def redact_value(value: Any, path: str = "") -> Any:
    """Return a value of a configuration with HIDDEN in the place of each secret in it."""
    if value is not None and is_secret(path):
        return HIDDEN
    if isinstance(value, dict):
        return {name: redact_value(each, f"{path}/{name}") for name, each in value.items()}
    if isinstance(value, list):
        return [redact_value(each) for each in value]
    return redact(value) if isinstance(value, str) else value
