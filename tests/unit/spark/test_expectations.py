"""Data Docs made to need no network: what a browser would load goes, what a reader reads stays."""

from __future__ import annotations

from pathlib import Path

from groupshift.spark.expectations import make_offline, without_network
from support.loaded import loads

PAGE = """<!DOCTYPE html>
<html><head><title>T &amp; t</title>
<link rel="stylesheet" href="https://cdn.example/a.css"/><link rel="shortcut icon" href="static/i.ico">
<script src="https://cdn.example/a.js"></script>
<style>body { background: url('https://cdn.example/a.png') } @import "//cdn.example/b.css";</style>
</head><body onload="go()">
<img src="https://cdn.example/logo.png" srcset="https://cdn.example/2x.png 2x">
<iframe src="//cdn.example"></iframe>
<p style="background: url(https://cdn.example/c.png)" class="a">read &lt;me&gt; &#233;
<a href="https://example.org">on</a></p>
<table id="t"></table>
<script>
  $('#t').bootstrapTable(
    Object.assign(
      {
        columns: [{'field': 'validation_success', 'title': 'Status'}, {'field': 'name', 'title': 'A & B'}],
        data: [{'validation_success': '<i></i>', '_validation_success_text': 'Failed',
                '_table_row_link_path': 'v/1.html',
                'name': '<a href="e/1.html">a <img src=//cdn.example/x></a>'}],
        toolbar: '#t-toolbar'
      },
      {}
    )
  );
</script>
</body></html>"""


def test_nothing_that_a_browser_would_load_or_run_is_left() -> None:
    """Scripts, foreign styles, pictures, frames and handlers; links to click on stay."""
    assert len(loads(PAGE)) >= 9
    made = without_network(PAGE, "p { color: red }")
    assert loads(made) == []
    assert "<script" not in made
    assert "onload" not in made
    assert '<a href="https://example.org">on</a>' in made
    assert "read &lt;me&gt; &#233;" in made
    assert made.index("<style>p { color: red }</style></head>") < made.index("<body>")


def test_a_table_that_a_script_fills_is_written_out() -> None:
    """Columns by title; the row's link is in its first cell, and its own links stay."""
    made = without_network(PAGE, "")
    assert "<th>Status</th><th>A &amp; B</th>" in made
    assert '<tr><td><a href="v/1.html">Failed</a></td><td><a href="e/1.html">a </a></td></tr>' in made


def test_every_page_of_a_site_is_rewritten_and_shared_files_go(tmp_path: Path) -> None:
    """A page is one file."""
    for name in ("index.html", "v/1.html", "static/styles/a.css"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(PAGE)
    make_offline(tmp_path)
    left = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file())
    assert left == ["index.html", "v/1.html"]
    assert [loads((tmp_path / name).read_text()) for name in left] == [[], []]
    assert "prefers-color-scheme: dark" in (tmp_path / "index.html").read_text()
