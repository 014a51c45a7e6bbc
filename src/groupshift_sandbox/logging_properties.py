"""Log settings of the JVMs: one line an event to standard error, which is the process's log file."""

from __future__ import annotations

from pathlib import Path

from groupshift_sandbox.home import Home

_TEXT = """log4j.rootLogger={level}, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{{ISO8601}} %p [%t] %c: %m%n
"""


def write_logging(home: Home, level: str = "INFO") -> Path:
    """A log4j 1 properties file for this level below the sandbox's configuration folder."""
    path = home.configuration / f"log4j-{level.lower()}.properties"
    if not path.exists():
        draft = path.with_suffix(".draft")
        draft.write_text(_TEXT.format(level=level))
        draft.replace(path)
    return path
