"""Why a group's offset of one partition is or is not written to the target: the closed vocabulary of reports.

A translation gives those that it can know; `groupshift.links.write_rules` gives the one of the report, and
has the sentences for people.

Source: docs/reference/cross-cluster-offsets.md §9.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why; one for each group and partition."""

    OK = "OK"
    OK_NEW_GROUP = "OK_NEW_GROUP"
    SKIP_ACTIVE = "SKIP_ACTIVE"
    SKIP_STATE_UNKNOWN = "SKIP_STATE_UNKNOWN"
    SKIP_WATERMARK = "SKIP_WATERMARK"
    SKIP_SOURCE_REWIND = "SKIP_SOURCE_REWIND"
    SKIP_NO_SYNC = "SKIP_NO_SYNC"
    """The current epoch has no evidence about the partition."""
    SKIP_BEFORE_FIRST_SYNC = "SKIP_BEFORE_FIRST_SYNC"
    """The commit is older than all evidence, and the policy is to skip it."""
    SKIP_TOPIC_MISSING = "SKIP_TOPIC_MISSING"
    SKIP_TOPIC_RECREATED = "SKIP_TOPIC_RECREATED"
    """The commit or the evidence is about an older log of either topic."""
    SKIP_FILTERED = "SKIP_FILTERED"
    SKIP_ADMIN_ERROR = "SKIP_ADMIN_ERROR"
    CLAMPED_HIGH = "CLAMPED_HIGH"
    CLAMPED_LOW = "CLAMPED_LOW"
    RACED = "RACED"
