"""Data Docs as a browser shows them from a folder: no request to any host, and nothing is missing."""

from __future__ import annotations

from pathlib import Path

import great_expectations
import pytest
from playwright.sync_api import Browser

from browser.conftest import watched
from groupshift.spark.expectations import Suite
from spark.snapshots import OLD_THREE, snapshot

pytestmark = pytest.mark.timeout(1500)  # Chromium may have to be installed first


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two snapshots; in the second an offset is beyond the end of its log."""
    folder = tmp_path_factory.mktemp("docs") / "data_docs"
    suite = Suite(great_expectations, folder)
    sound, broken = snapshot(OLD_THREE), snapshot(OLD_THREE)
    broken["offsets"][0]["offset"] = 10**9
    suite.validate("before", sound)
    suite.validate("after", broken)
    suite.publish()
    return folder


def test_data_docs_open_from_a_folder_without_the_network(browser: Browser, docs: Path) -> None:
    """From the index to the failed result by a click; only files of the folder are asked for."""
    page = browser.new_page(viewport={"width": 1180, "height": 900})
    try:
        seen = watched(page)
        page.goto((docs / "index.html").as_uri())
        page.locator("table.table").first.wait_for()
        rows = page.locator("table.table tr", has_text="after.positions").first
        assert "Failed" in rows.inner_text()
        rows.locator("a").first.click()
        page.get_by_text("Table-Level Expectations").first.wait_for()
        page.locator("table", has_text="offset").first.wait_for()
        assert all(url.startswith(docs.as_uri()) for url in seen.requests)
        assert len(seen.requests) == 2
        assert seen.complaints == []
    finally:
        page.close()
