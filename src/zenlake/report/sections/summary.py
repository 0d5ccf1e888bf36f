# SPDX-License-Identifier: Apache-2.0
"""Summary of the most important figures, in sentences."""

from typing import Any

from zenlake.report.sections.losses import LOSSES

MIN_OLD_AGE = 1000.0  # age in milliseconds above which a finding names the subscriber
MIN_SHARE = 0.995  # delivered share below which a finding names the subscriber
MAX_SUBSCRIBERS = 3  # named in findings of one kind
BAD, WARN, GOOD = "bad", "warn", "good"

LOST = {
    ("network", "frames"): ("1 frame was lost in the network", "{} frames were lost in the network"),
    ("network", "samples"): ("1 sample was lost in the network", "{} samples were lost in the network"),
    ("sender", "samples"): ("1 sample was not sent by its publisher's node", "{} samples were not sent by their publishers' nodes"),
    ("router", "samples"): ("1 sample was dropped by a router", "{} samples were dropped by routers"),
    ("router", "messages"): ("1 message was dropped for a slow neighbour", "{} messages were dropped for slow neighbours"),
    ("unknown", "frames"): ("1 frame is missing for an unknown reason", "{} frames are missing for an unknown reason"),
    ("unknown", "samples"): ("1 sample is missing for an unknown reason", "{} samples are missing for an unknown reason"),
    ("recording", "frames"): ("1 frame is missing in the recording only", "{} frames are missing in the recording only"),
}  # fmt: skip


def findings(figures: dict[str, Any]) -> list[dict[str, str]]:
    """Return sentences with the section that has the details, most severe first."""
    overview, losses, timing, declared = (figures[name] for name in ("overview", "losses", "timing", "declared"))
    subscribers = figures["deliveries"]["subscribers"]["rows"]
    outcomes = {row["outcome"]: row["gets"] for row in figures["gets"]["outcomes"]}
    result: list[tuple[str, str, str]] = []

    def add(level: str, section: str, count: int, singular: str, plural: str) -> None:
        if count:
            result.append((level, section, singular if count == 1 else plural.format(f"{count:,}")))

    def add_subscribers(rows: list[dict[str, Any]], others: str) -> None:
        for row in rows[:MAX_SUBSCRIBERS]:
            result.append((BAD, "deliveries", row["text"]))
        add(BAD, "deliveries", len(rows) - MAX_SUBSCRIBERS if len(rows) > MAX_SUBSCRIBERS else 0,
            f"1 more subscriber {others}", f"{{}} more subscribers {others}")  # fmt: skip

    add(BAD, "errors", overview["errors"], "1 batch could not be decoded", "{} batches could not be decoded")
    for row in losses["causes"]:
        if row["cause"] in LOSSES:
            add(BAD, "losses", row["missing"], *LOST[row["cause"], row["unit"]])
    add(BAD, "losses", overview["unfinished"],
        "1 fragmented message could not be reassembled",
        "{} fragmented messages could not be reassembled")  # fmt: skip
    add_subscribers(
        [row | {"text": f"{name_subscriber(row)} received {percent(row['share'])} of what it subscribed to"}
         for row in subscribers if row["share"] is not None and row["share"] < MIN_SHARE],
        f"received less than {MIN_SHARE:.1%} of what they subscribed to".replace("%", " %"),
    )  # fmt: skip
    add_subscribers(
        [row | {"text": f"Samples to {name_subscriber(row)} were up to {row['age_max'] / 1000:,.1f} s old"}
         for row in sorted(subscribers, key=lambda row: -(row["age_max"] or 0))
         if (row["age_max"] or 0) >= MIN_OLD_AGE],
        f"received samples older than {MIN_OLD_AGE / 1000:g} s",
    )  # fmt: skip
    add(BAD, "gets", outcomes.get("timeout", 0), "1 get timed out", "{} gets timed out")
    add(BAD, "gets", outcomes.get("lost", 0),
        "1 get was lost when its session closed", "{} gets were lost when their session closed")  # fmt: skip
    add(BAD, "gets", outcomes.get("error", 0),
        "1 get was answered with an error", "{} gets were answered with an error")  # fmt: skip
    add(WARN, "gets", outcomes.get("empty", 0), "1 get had no reply", "{} gets had no reply")
    add(WARN, "sessions", overview["broken"],
         "1 connection broke without a CLOSE", "{} connections broke without a CLOSE")  # fmt: skip
    silent_tokens = {span["key"] for span in figures["liveliness"]["spans"] if span["how"] == "fell silent"}
    add(WARN, "liveliness", len(silent_tokens),
        "1 token's session expired silently", "{} tokens' sessions expired silently")  # fmt: skip
    add(WARN, "timing", timing["overtaken"],
        "1 publication was overtaken by a newer one of its key",
        "{} publications were overtaken by newer ones of their keys")  # fmt: skip
    add(WARN, "timing", timing["reordered"],
        "1 publication was received out of its publisher's order",
        "{} publications were received out of their publisher's order")  # fmt: skip
    add(WARN, "keys", declared["subscribed"]["total"],
         "1 key expression was subscribed and has no publisher",
         "{} key expressions were subscribed and have no publisher")  # fmt: skip
    add(WARN, "keys", declared["announced"]["total"],
         "1 publisher was declared and never published",
         "{} publishers were declared and never published")  # fmt: skip
    add(WARN, "timing", timing["early"],
         "1 delivery has a timestamp after its receipt: clocks differ",
         "{} deliveries have a timestamp after their receipt: clocks differ")  # fmt: skip
    for row in losses["causes"]:
        if row["cause"] in ("unknown", "recording"):
            add(WARN, "losses", row["missing"], *LOST[row["cause"], row["unit"]])
    add(WARN, "losses", overview["in_shared_memory"],
         "1 publication is a reference to shared memory",
         "{} publications are references to shared memory")  # fmt: skip
    add(WARN, "sessions", overview["encrypted"], "1 session is encrypted", "{} sessions are encrypted")
    add(WARN, "sessions", overview["midway"],
         "1 session began before the recording", "{} sessions began before the recording")  # fmt: skip
    add(WARN, "keys", overview["unresolved"],
         "1 publication's key was declared before the recording",
         "{} publications have keys that were declared before the recording")  # fmt: skip
    add(WARN, "losses", losses["notes"]["total"],
         "1 note about missing or repeated packets", "{} notes about missing or repeated packets")  # fmt: skip
    doubtful = ("losses", "deliveries", "errors")
    if overview["messages"] and not any(level == BAD or section in doubtful for level, section, _ in result):
        result.append((GOOD, "losses", "All bytes were decoded and no loss was detected"))
    return [{"level": level, "section": section, "text": text} for level, section, text in result]


def name_subscriber(row: dict[str, Any]) -> str:
    """Return the first digits of a ZenohID, or the session, and a key expression by which people recognise the node."""
    name = row["subscriber"][:8] if row["subscriber"] else row["session"]
    keys = row["keys"] or []
    more = f" and {row['keys_total'] - 1} more" if row["keys_total"] > 1 else ""
    return f"{name} ({keys[0]}{more})" if keys else str(name)


def percent(share: float) -> str:
    """Return a share rounded down, so that 100 % means all."""
    return f"{int(share * 1000) / 10:.0f} %" if share < 0.99 else f"{int(share * 1000) / 10:.1f} %"
