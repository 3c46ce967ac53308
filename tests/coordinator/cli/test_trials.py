"""Flags and defaults of `campaign` and `certify`."""

import pytest

from coordinator.cli.trials import TRIAL_DEFAULTS
from tests.coordinator.cli.conftest import help_of
from tests.helpers.command_line import Call

pytestmark = pytest.mark.usefixtures("wide_terminal")


def test_campaigns_and_certificates_show_their_own_defaults(call: Call) -> None:
    for name, default in (("run", "local"), ("campaign", "memory"), ("certify", "memory")):
        (line,) = (line for line in help_of(call, name).splitlines() if "--driver CHOICE" in line)
        assert f"[default: {default}]" in line


def test_a_certificate_needs_neither_collective_nor_driver(call: Call) -> None:
    ended = call("certify --topology star:3 --algorithm edt --faults nodes<=0 --json")
    assert ended.status == 0
    assert {name: ended.data[name] for name in TRIAL_DEFAULTS} == TRIAL_DEFAULTS
