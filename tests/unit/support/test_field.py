"""The tool that lays tests over an older commit reads pytest's reports rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.field import There, named_tests, results

_PASSED = '<testcase name="test_f01_a"/>'
_FAILED = '<testcase name="test_f01_a[x]"><failure message="AssertionError: 1 != 2"/></testcase>'
_MISSING = '<testcase name="test_f01_a"><failure message="ImportError: cannot import name"/></testcase>'
_SKIPPED = '<testcase name="test_f01_a"><skipped/></testcase>'
_COLLECTION = (
    '<testcase name="x"><error message="collection failure">ModuleNotFoundError: x</error></testcase>'
)


@pytest.mark.parametrize(
    ("cases", "there"),
    [
        pytest.param(_FAILED, There.FAILS, id="fails"),
        pytest.param(_MISSING, There.NEW_PART, id="no such part"),
        pytest.param(_COLLECTION, There.NEW_PART, id="no such module"),
        pytest.param(_PASSED, There.PASSES, id="passes"),
        pytest.param(_FAILED + _PASSED, There.PASSES, id="one of two passes"),
        pytest.param(_SKIPPED, There.NOT_RUN, id="skipped"),
        pytest.param("", There.NOT_RUN, id="not there"),
    ],
)
def test_a_report_of_pytest_tells_what_a_test_came_to(tmp_path: Path, cases: str, there: There) -> None:
    """A test counts as failing there only when each of its cases does."""
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    (found,) = results("tests/unit/test_x.py", ["test_f01_a"], report)
    assert found.there is there


def test_the_names_of_reports_are_found(tmp_path: Path) -> None:
    """Methods count, other tests do not."""
    file = tmp_path / "test_x.py"
    file.write_text("def test_f01_a(): ...\ndef test_feeds(): ...\nclass T:\n    def test_u12_b(self): ...\n")
    assert named_tests(file) == ["test_f01_a", "test_u12_b"]
