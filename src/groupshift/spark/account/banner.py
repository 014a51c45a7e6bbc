"""The first section of every report: the sentence, and what to do now."""

from __future__ import annotations

from groupshift.spark.account.headline import Headline
from groupshift.spark.html import Markup, tag


def banner(top: Headline, *alarms: Markup) -> Markup:
    """The headline's sentence and its commands, then what must not be overlooked. Never raises."""
    todo = [tag("li", text, " " if command else "", _command(command)) for text, command in top.now]
    return tag(
        "section",
        tag("p", top.sentence, class_="said"),
        tag("h2", "What to do now"),
        tag("ul", *todo),
        *alarms,
        class_=f"banner {top.verdict}",
    )


def _command(text: str) -> Markup:
    return tag("code", text) if text else Markup()
