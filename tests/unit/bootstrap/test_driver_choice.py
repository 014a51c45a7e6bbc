"""Which driver changes the members of a group: chosen by name, refused with what is missing."""

from __future__ import annotations

import sys

import pytest

from groupshift.adapters.drivers.manual import ManualFleet
from groupshift.adapters.drivers.process import ProcessFleet
from groupshift.bootstrap.member_and_broker_drivers import fleet
from groupshift.domain.group import GroupView
from groupshift.errors import Rejected
from groupshift.settings import FleetSettings

CONFIGURED = FleetSettings(socket="/run/fleet.sock")


class Nobody:
    """A reader of groups that is not to be asked."""

    def read(self, group: str) -> GroupView:
        """Fails."""
        raise AssertionError(f"group {group} was read")


@pytest.mark.parametrize(("name", "kind"), [("process", ProcessFleet), ("manual", ManualFleet)])
def test_each_driver_has_its_name(name: str, kind: type) -> None:
    """It opens nothing before it is used."""
    assert type(fleet(CONFIGURED, Nobody(), name)) is kind


def test_what_cannot_be_used_is_refused_before_anything_is_changed() -> None:
    """An unknown name with those there are; what lacks a setting with its name."""
    with pytest.raises(Rejected, match="driver 'helm' is unknown; choose one of process, "):
        fleet(CONFIGURED, Nobody(), "helm")
    with pytest.raises(Rejected, match=r"needs the setting fleet\.socket"):
        fleet(FleetSettings(), Nobody(), "process")
    with pytest.raises(Rejected, match=r"fleet\.command\.start is empty: name a program"):
        fleet(CONFIGURED, Nobody(), "command")


def test_a_library_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of Kubernetes is one."""
    monkeypatch.delitem(sys.modules, "groupshift.adapters.drivers.kubernetes", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(Rejected, match=r"pip install 'kafka-groupshift\[kubernetes\]'"):
        fleet(CONFIGURED, Nobody(), "kubernetes")
