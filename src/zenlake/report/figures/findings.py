# SPDX-License-Identifier: Apache-2.0
"""What deserves a look first, in words, from the figures themselves."""

from typing import Any

BAD, WARN, GOOD = "bad", "warn", "good"


def findings(told: dict[str, Any]) -> list[dict[str, str]]:
    """Sentences with the section that shows more, the gravest first."""
    overview, losses, timing = told["overview"], told["losses"], told["timing"]
    outcomes = {row["outcome"]: row["queries"] for row in told["queries"]["outcomes"]}
    found: list[tuple[str, str, str]] = []

    def note(level: str, section: str, count: int, one: str, many: str) -> None:
        if count:
            found.append((level, section, one if count == 1 else many.format(f"{count:,}")))

    note(BAD, "errors", overview["errors"], "1 batch could not be decoded", "{} batches could not be decoded")
    note(BAD, "losses", overview["lost_frames"], "1 frame never arrived", "{} frames never arrived")
    note(BAD, "losses", overview["lost_samples"],
         "1 sample is missing from its publisher's count",
         "{} samples are missing from their publishers' counts")  # fmt: skip
    note(BAD, "losses", overview["lost_messages"],
         "1 fragmented message could not be put together",
         "{} fragmented messages could not be put together")  # fmt: skip
    note(BAD, "losses", overview["dropped"],
         "1 message was dropped for a neighbour that read too slowly",
         "{} messages were dropped for neighbours that read too slowly")  # fmt: skip
    note(BAD, "queries", outcomes.get("timeout", 0), "1 query timed out", "{} queries timed out")
    note(BAD, "queries", outcomes.get("lost", 0),
         "1 query was cut off by the end of its session", "{} queries were cut off by the end of their session")  # fmt: skip
    note(
        WARN,
        "queries",
        outcomes.get("error", 0),
        "1 query was answered with an error",
        "{} queries were answered with an error",
    )
    note(
        WARN, "queries", outcomes.get("empty", 0), "1 query found nobody to answer", "{} queries found nobody to answer"
    )
    note(WARN, "sessions", overview["broken"],
         "1 connection broke without a CLOSE", "{} connections broke without a CLOSE")  # fmt: skip
    fell = {span["key"] for span in told["liveliness"]["spans"] if span["how"] == "fell silent"}
    note(WARN, "liveliness", len(fell), "1 token's session fell silent", "{} tokens' sessions fell silent")
    note(WARN, "timing", timing["late"], "1 sample came after a newer one", "{} samples came after a newer one")
    note(
        WARN,
        "timing",
        timing["reordered"],
        "1 sample came out of its publisher's order",
        "{} samples came out of order",
    )
    note(WARN, "timing", timing["early"],
         "1 sample bears a time after its receipt: clocks differ",
         "{} samples bear a time after their receipt: clocks differ")  # fmt: skip
    note(WARN, "sessions", overview["encrypted"], "1 session is encrypted", "{} sessions are encrypted")
    note(WARN, "sessions", overview["midway"],
         "1 session began before the recording", "{} sessions began before the recording")  # fmt: skip
    note(WARN, "keys", overview["unresolved"],
         "1 sample's key was declared before the recording",
         "{} samples have keys that were declared before the recording")  # fmt: skip
    note(WARN, "losses", losses["notes"]["total"],
         "1 note about what the recording lacks or repeats", "{} notes about what the recording lacks or repeats")  # fmt: skip
    if not any(level == BAD for level, _, _ in found) and overview["messages"]:
        found.append((GOOD, "losses", "Every byte was understood and nothing is known to be lost"))
    return [{"level": level, "section": section, "text": text} for level, section, text in found]
