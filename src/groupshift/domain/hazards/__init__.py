"""The hazard book: known bugs of brokers and clients that make a move unsafe, by range of versions."""

from groupshift.domain.hazards.book import BOOK, hazards_of, look
from groupshift.domain.hazards.model import Facts, Hazard, Met, Role, Standing, Trait
from groupshift.domain.versions import Span, Version

__all__ = [
    "BOOK",
    "Facts",
    "Hazard",
    "Met",
    "Role",
    "Span",
    "Standing",
    "Trait",
    "Version",
    "hazards_of",
    "look",
]
