"""The report of an audit of offsets, and the page that lists audits, as a browser shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from playwright.sync_api import Browser

from browser.conftest import watched
from browser.test_report_of_a_run import CONTRAST, keep
from groupshift.audit.offsets import Audit, Looked, Mismatch, summary
from groupshift.audit.report import render
from groupshift_airflow.web.rendering import rendered
from support.audit_rules import BY_NUMBER

pytestmark = pytest.mark.timeout(1500)  # Chromium may have to be installed first

LONG = "settlement.of.payments.in.every.currency.and.country.v2"
PROBLEM = "group 'billing': its coordinator answers COORDINATOR_LOAD_IN_PROGRESS"


def _row(at: int, number: str) -> Mismatch:
    """One difference of this rule, with the longest of everything."""
    rule = BY_NUMBER[number]
    return Mismatch(
        group=f"{LONG}-consumer-{at}",
        topic=LONG,
        partition=at,
        kind=rule.kind,
        weight=rule.weight,
        rule=number,
        reason=rule.reason,
        remedy=rule.remedy,
        answered=10**12,
        logged=10**12,
        zookeeper=10**12,
        mode="zookeeper",
        log_partition=49,
        log_offset=10**12,
        foreign_partition=48,
        foreign_offset=10**12,
        log_end=10**12,
    )


def _audit(*rows: Mismatch, problems: tuple[str, ...] = ()) -> Audit:
    looked = Looked(keys=150_000, mismatches=rows, problems=problems)
    return Audit(began_ms=0, ended_ms=9_000, cluster_id="c", zookeeper=True, retention_ms=None, looked=looked)


DIFFERS = _audit(*map(_row, range(len(BY_NUMBER)), BY_NUMBER), problems=(PROBLEM,))


def _listing() -> str:
    kept = [{"name": name, **summary(found)} for name, found in (("b", DIFFERS), ("a", _audit()))]
    broken = {"name": "c", "broken": "manifest.json is no longer what was written"}
    return _page(audits=[broken, *kept], left=7)


def _page(**values: Any) -> str:
    asked = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []})
    return bytes(rendered(asked, "audits.html", **values).body).decode()


PAGES = {
    "audit-differs": lambda: render(DIFFERS),
    "audit-clean": lambda: render(_audit()),
    "audits": _listing,
    "audits-empty": lambda: _page(audits=[], left=0),
}


@pytest.mark.parametrize("name", PAGES)
def test_an_audit_can_be_read_in_every_light_and_on_a_telephone(
    browser: Browser, name: str, tmp_path: Path
) -> None:
    """It asks for nothing, says nothing on the console, has contrast, and only tables scroll sideways."""
    path = tmp_path / f"{name}.html"
    path.write_text(PAGES[name](), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1180, "height": 900})
    try:
        seen = watched(page)
        page.goto(path.as_uri())
        for summary_of_more in page.locator("summary").all():
            summary_of_more.click()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found = page.evaluate(CONTRAST.replace("main *", "body *"))
            assert found["bad"] == []
            assert found["looked"] > 2
        assert keep(page, name, tmp_path).stat().st_size > 5_000
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
        assert seen.requests == [path.as_uri()]
        assert seen.complaints == []
    finally:
        page.close()


def test_the_first_screen_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    """Of an audit with a difference: the sentence, the remedy and the command without scrolling."""
    path = tmp_path / "one.html"
    path.write_text(render(_audit(_row(0, "A10"))), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1180, "height": 900})
    try:
        page.goto(path.as_uri())
        banner = page.locator(".banner")
        box = banner.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
        for part in ("1 offset differs", BY_NUMBER["A10"].remedy, "groupshift audit --groups"):
            assert part in banner.inner_text()
        assert "stale answer (A10)" in page.locator("section", has_text="Not explained").last.inner_text()
    finally:
        page.close()
