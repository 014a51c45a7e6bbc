"""The report of a real run in a real browser: from its file, alone, readable in light, dark and on paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser.conftest import Opened, watched
from groupshift.bootstrap.moves import journal
from groupshift.domain.plan import Until
from groupshift.domain.run import findings_from
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import worst_verdict
from groupshift.ports.runs import Event, EventKind
from groupshift.report.kept_evidence import kept_of
from groupshift.report.run_page import closed_reader, document_of
from groupshift.settings import load
from groupshift_sandbox.home import Home
from support.chromium import keep
from support.coordination_runs import make_coordination

pytestmark = pytest.mark.timeout(2700)  # the first one waits for Chromium and a run there and back

CONTRAST = """() => {
  const parse = c => { const n = c.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0.99) return c; } return [255, 255, 255]; };
  const bad = [];
  let looked = 0;
  for (const e of document.querySelectorAll('main *:not(svg *)')) {
    if (e.matches('svg') || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    looked += 1;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const where = `${e.tagName}.${e.className}`;
    if (ratio < 4.5) bad.push(`${where}: ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
  }
  return {bad, looked};
}"""
"""Every element with text of its own whose contrast with its background is below WCAG AA."""


def test_it_opens_from_its_file_and_asks_for_nothing(opened: Opened, report: Path) -> None:
    """One request, for itself; no word on the console."""
    opened.page.wait_for_load_state("networkidle")
    assert opened.requests == [report.as_uri()]
    assert opened.complaints == []
    assert "Group orders-app: rolled back" in opened.page.title()


def test_it_says_first_what_became_of_the_group(opened: Opened, tmp_path: Path) -> None:
    """Without scrolling: the sentence, the next command, the audit's figures."""
    page = opened.page
    banner = page.locator(".banner")
    assert "is back where it came from" in banner.inner_text()
    assert "groupshift verify-evidence" in banner.inner_text()
    box = page.locator("dl").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900, "the figures are on the first screen"
    assert "not audited" not in page.locator("dl").first.inner_text()
    assert keep(page, "run-report", tmp_path).stat().st_size > 20_000


def written_down(report: Path) -> tuple[Event, ...]:
    """What the run of this report wrote down."""
    with journal(load(Home(report.parent).settings_file)) as runs:
        return runs.events(runs.recent(1)[0].run)


def test_the_pictures_have_names_and_show_what_happened(opened: Opened, report: Path) -> None:
    """Run, owners and lag by role; both writes of the mode node in each; hand-overs with gaps in red; each
    pass and each answer of the journal, which a busy machine may make say more than one of a phase."""
    page = opened.page
    for name in ("The run over time", "Owners over time", "Lag over time"):
        picture = page.get_by_role("img", name=name)
        assert picture.count() == 1
        assert picture.locator("text=mode kafka").count() == 1
        assert picture.locator("text=mode zookeeper").count() == 1
    owners = page.get_by_role("img", name="Owners over time")
    assert owners.locator("path.unowned").count() > 0
    lanes = owners.locator("css=text").filter(has_text=re.compile("^orders-"))
    assert lanes.count() == 6, "also the idle partition has a lane"
    run = page.get_by_role("img", name="The run over time")
    events = written_down(report)
    found = [each for each in events if each.kind is EventKind.JUDGED and each.body["findings"]]
    judged = [e for e in found if worst_verdict(findings_from(e.body["findings"])) is Verdict.PASS]
    answered = [each.step.partition(" ")[2] for each in events if each.kind is EventKind.GATE_ANSWERED]
    assert run.locator("circle.dot.pass").count() == len(judged)
    assert len({each.step for each in judged}) == 12
    assert run.locator("circle.gate").count() == len(answered)
    assert {"plan/approve", "toggle/approve"} <= set(answered)
    for shape in run.locator("circle").all():
        assert float(shape.get_attribute("cx") or 0) + 8 <= 1000, "nothing is cut off at the edge"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(opened: Opened, scheme: str, tmp_path: Path) -> None:
    """The page follows the system; every text has the contrast of WCAG AA on its ground."""
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    for summary in page.locator("summary").all():
        summary.click()
    found = page.evaluate(CONTRAST)
    assert found["bad"] == []
    assert found["looked"] > 300
    page.reload()
    page.locator("h2", has_text="Owners over time").scroll_into_view_if_needed()
    assert keep(page, f"run-report-{scheme}", tmp_path).stat().st_size > 20_000


def test_it_prints_on_white_without_losing_anything(opened: Opened, tmp_path: Path) -> None:
    """On paper the dark scheme is white, and a PDF of several pages comes out."""
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert keep(page, "run-report-print", tmp_path, whole=True).stat().st_size > 50_000
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page") > 1


def test_a_narrow_screen_scrolls_only_inside_tables(opened: Opened) -> None:
    """Nothing sticks out of the page of a telephone."""
    page = opened.page
    page.set_viewport_size({"width": 390, "height": 800})
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_every_table_has_heads_that_name_its_columns(opened: Opened) -> None:
    """For those who listen to a page."""
    page = opened.page
    tables = page.locator("table").count()
    assert tables >= 6
    assert page.locator("table:has(thead th[scope=col])").count() == tables
    assert page.locator("html[lang=en]").count() == 1


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    """What a person is called, or a file of the evidence, is never run."""
    processes = make_coordination()
    processes.seals = False
    evil = "<img src=x onerror=alert(1)><script>console.log('run')</script>"
    run = processes.begin(until=Until.CANARY, requester=evil)
    processes.drive(run)
    kept = kept_of(processes.evidence, processes.runs, run)
    kept.troubles.append(evil)
    path = tmp_path / "hostile.html"
    reader = closed_reader(processes.move, processes.runs, processes.clock, run)
    path.write_text(document_of(reader, kept))
    seen = watched(browser.new_page())
    seen.page.goto(path.as_uri())
    assert seen.requests == [path.as_uri()]
    assert seen.complaints == []
    assert evil in seen.page.locator(".lead").inner_text()
    assert evil in seen.page.locator(".banner").inner_text()
    seen.page.close()
