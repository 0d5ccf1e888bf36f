# SPDX-License-Identifier: Apache-2.0
"""Summary of the most important figures, in sentences."""

from typing import Any

MIN_OLD_AGE = 1000.0  # age in milliseconds above which a finding names the receiver
MAX_OLD_RECEIVERS = 3
BAD, WARN, GOOD = "bad", "warn", "good"


def findings(figures: dict[str, Any]) -> list[dict[str, str]]:
    """Return sentences with the section that has the details, most severe first."""
    overview, losses, timing = figures["overview"], figures["losses"], figures["timing"]
    outcomes = {row["outcome"]: row["queries"] for row in figures["queries"]["outcomes"]}
    result: list[tuple[str, str, str]] = []

    def add(level: str, section: str, count: int, singular: str, plural: str) -> None:
        if count:
            result.append((level, section, singular if count == 1 else plural.format(f"{count:,}")))

    add(BAD, "errors", overview["errors"], "1 batch could not be decoded", "{} batches could not be decoded")
    add(BAD, "losses", overview["lost_frames"], "1 frame is missing", "{} frames are missing")
    add(BAD, "losses", overview["lost_samples"],
         "1 sample is missing by its publisher's sequence numbers",
         "{} samples are missing by their publishers' sequence numbers")  # fmt: skip
    add(BAD, "losses", overview["lost_messages"],
         "1 fragmented message could not be reassembled",
         "{} fragmented messages could not be reassembled")  # fmt: skip
    add(BAD, "losses", overview["dropped"],
         "1 message was dropped for a slow neighbour",
         "{} messages were dropped for slow neighbours")  # fmt: skip
    add(BAD, "queries", outcomes.get("timeout", 0), "1 query timed out", "{} queries timed out")
    add(BAD, "queries", outcomes.get("lost", 0),
         "1 query was lost when its session closed", "{} queries were lost when their session closed")  # fmt: skip
    add(
        WARN,
        "queries",
        outcomes.get("error", 0),
        "1 query was answered with an error",
        "{} queries were answered with an error",
    )
    add(WARN, "queries", outcomes.get("empty", 0), "1 query had no reply", "{} queries had no reply")
    add(WARN, "sessions", overview["broken"],
         "1 connection broke without a CLOSE", "{} connections broke without a CLOSE")  # fmt: skip
    silent_tokens = {span["key"] for span in figures["liveliness"]["spans"] if span["how"] == "fell silent"}
    add(
        WARN,
        "liveliness",
        len(silent_tokens),
        "1 token's session expired silently",
        "{} tokens' sessions expired silently",
    )
    add(
        WARN,
        "timing",
        timing["late"],
        "1 sample was overtaken by a newer one of its key",
        "{} samples were overtaken by newer ones of their keys",
    )
    add(
        WARN,
        "timing",
        timing["reordered"],
        "1 sample was received out of order",
        "{} samples were received out of order",
    )
    for row in timing["receivers"]["rows"][:MAX_OLD_RECEIVERS]:
        if row["age_most"] >= MIN_OLD_AGE:
            result.append(
                (BAD, "timing", f"Samples to {row['receiver']} were up to {row['age_most'] / 1000:.1f} s old")
            )
    declared = figures["declared"]
    add(WARN, "keys", declared["subscribed"]["total"],
         "1 subscribed key expression has no publisher", "{} subscribed key expressions have no publisher")  # fmt: skip
    add(WARN, "keys", declared["announced"]["total"],
         "1 publisher was declared and published nothing",
         "{} publishers were declared and published nothing")  # fmt: skip
    add(WARN, "timing", timing["early"],
         "1 sample has a timestamp after its receipt: clocks differ",
         "{} samples have a timestamp after their receipt: clocks differ")  # fmt: skip
    add(WARN, "sessions", overview["encrypted"], "1 session is encrypted", "{} sessions are encrypted")
    add(WARN, "sessions", overview["midway"],
         "1 session began before the recording", "{} sessions began before the recording")  # fmt: skip
    add(WARN, "keys", overview["unresolved"],
         "1 sample's key was declared before the recording",
         "{} samples have keys that were declared before the recording")  # fmt: skip
    add(WARN, "losses", losses["notes"]["total"],
         "1 note about missing or repeated packets", "{} notes about missing or repeated packets")  # fmt: skip
    if not any(level == BAD for level, _, _ in result) and overview["messages"]:
        result.append((GOOD, "losses", "All bytes were decoded and no loss was detected"))
    return [{"level": level, "section": section, "text": text} for level, section, text in result]
