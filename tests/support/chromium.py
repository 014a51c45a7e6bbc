"""Debian's Chromium: where it is, and one that Playwright drives."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

PATIENT = ("-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")
"""Options of apt-get: another one may be running, or the network be down for a moment."""
LAUNCH_MS, LOOK_MS = 180_000, 120_000
"""What Chromium has to start, and a page for whatever is waited for on it."""


def chromium() -> str:
    """The path of Chromium, installed first where there is none and we are root on a Debian."""
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", *PATIENT, *command], check=True, capture_output=True, timeout=600)
        found = shutil.which("chromium")
    assert found, "Chromium is missing and cannot be installed by this user: apt-get install chromium"
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """One headless Chromium; as root it cannot have a sandbox of its own."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"], timeout=LAUNCH_MS
        )
        yield opened
        opened.close()


def keep(page: Page, name: str, folder: Path, *, whole: bool = False) -> Path:
    """A screenshot in this folder; copied to the folder GROUPSHIFT_SCREENSHOTS where that is set."""
    file = folder / f"{name}.png"
    page.screenshot(path=file, full_page=whole)
    if wanted := os.environ.get("GROUPSHIFT_SCREENSHOTS"):
        shutil.copy(file, Path(wanted) / file.name)
    return file
