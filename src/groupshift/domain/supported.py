"""Which releases groupshift works with are supported, and which of them were tried: the one table that
``groupshift --version`` prints and README.md shows. Its ranges are those of pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Supported:
    """``tried`` are the releases that the project's tests ran with, oldest first."""

    what: str
    releases: str
    tried: tuple[str, ...]


SUPPORTED = (
    Supported(
        "Kafka brokers",
        "2.4 to 4.4",
        (
            "2.4.1", "3.4.0", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2",
            "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0",
        ),
    ),
    Supported("Scala consumers", "0.10.2 to 1.1", ("0.10.2.2", "1.1.1")),
    Supported("ZooKeeper", "3.8", ("3.8.4",)),
    Supported("Python", ">=3.11", ("3.11",)),
    Supported("confluent-kafka", ">=2.11,<3", ("2.11.0", "2.16.1")),
    Supported("kazoo", ">=2.11,<3", ("2.11.0",)),
    Supported("SQLAlchemy", ">=2.0.40,<2.2", ("2.0.40", "2.1.9")),
    Supported("Airflow", ">=3.3.0,<3.4", ("3.3.2",)),
    Supported("Spark", "==4.2.0", ("4.2.0",)),
)  # fmt: skip


def version_text(version: str) -> str:
    """What ``groupshift --version`` prints."""
    wide = max(len(each.what) for each in SUPPORTED)
    far = max(len(each.releases) for each in SUPPORTED)
    rows = [
        f"{each.what:{wide}}  {each.releases:{far}}  tried: {', '.join(each.tried)}" for each in SUPPORTED
    ]
    return "\n".join([f"groupshift {version}", *rows])
