"""How a JVM of Kafka or ZooKeeper is started: its command line, its properties, and its log, which has one
line an event on standard error, the process's log file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from groupshift.adapters.spark_submit.java import java_binary
from groupshift_sandbox.home import Home

_LOG4J_2 = 4
_TEXT = """log4j.rootLogger={level}, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{{ISO8601}} %p [%t] %c: %m%n
"""


def java_argv(
    home: Home, main: str, *arguments: str, classes: str, heap: str, options: Sequence[str] = (), release: str
) -> list[str]:
    """The command line of a small JVM with the class path ``classes``, as its ``release`` writes a log."""
    logs = f"-Dlog4j.configuration=file:{write_logging(home)}"
    return [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{heap}", *options,
        logs if writes_log4j(release) else "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-cp", classes, main, *arguments,
    ]  # fmt: skip


def writes_log4j(release: str) -> bool:
    """Whether its log binding is log4j 1; since 4.0 it is Log4j 2, which we do not configure."""
    return int(release.partition(".")[0]) < _LOG4J_2


def write_properties(home: Home, name: str, properties: Mapping[str, str]) -> str:
    """Write ``<name>.properties`` below the sandbox's configuration folder; returns its path."""
    file = home.configuration / f"{name}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(file)


def write_logging(home: Home, level: str = "INFO") -> Path:
    """A log4j 1 properties file for this level below the sandbox's configuration folder."""
    path = home.configuration / f"log4j-{level.lower()}.properties"
    if not path.exists():
        draft = path.with_suffix(".draft")
        draft.write_text(_TEXT.format(level=level))
        draft.replace(path)
    return path
