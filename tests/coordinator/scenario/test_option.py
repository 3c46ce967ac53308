"""A new option is one field: flags, types of the API, refusals, fingerprints and the record for hosts follow from it."""

from typing import Annotated, Any, ClassVar, NamedTuple

import pytest
from cyclopts import App, Parameter
from pydantic import Field

from coordinator.campaigns import grid
from coordinator.cli.options import make_flags
from coordinator.planning import collective, consistency
from coordinator.scenario.model import OPTIONS, Scenario
from coordinator.scenario.option import Needs, Option, OptionGroup, options_of
from emunode.errors import FrameError, ScenarioError
from emunode.model import Bounds, CollectiveSpec
from emunode.net import wire
from emunode.net.records import decode_record, encode_record
from emunode.topologies.registry import parse_topology
from reference_pages.option_types import option_types

NEEDS = Needs("relabel", "only nodes that are called by ranks have patience")


class PatientScenario(Scenario):
    """A scenario with one more option."""

    patience: Annotated[int, Option(OptionGroup.LINKS, NEEDS)] = Field(
        3, ge=1, le=9, description="steps that a link waits for its turn"
    )


class PatientSpec(NamedTuple):
    """The record of its hosts, as far as it matters here."""

    topology: str
    source: int
    target: int
    permutation: tuple[int, ...]
    message_bytes: int
    segments: int
    packet_limit: int
    program: str
    link_capacity: Annotated[int, Bounds(-2)]
    reliable: None
    repair: None
    settings: tuple[()]
    redundancy: int
    patience: Annotated[int, Bounds(1, 9)]


BASE: dict[str, Any] = {"topology": "star:3", "collective": "broadcast", "algorithm": "flood", "driver": "memory"}
PATIENT = options_of(PatientScenario)


def patient(**values: Any) -> PatientScenario:
    """Return a scenario with the new option."""
    return PatientScenario.model_validate(BASE | values)


def test_a_new_field_is_a_flag_with_group_range_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    app = App(name="patient", result_action="return_value")
    flags: Any = make_flags("PatientFlags", {}, options=PATIENT)

    @app.default
    def given(*, flags: Annotated[flags | None, Parameter(name="*")] = None) -> str | None:
        return None if flags is None else flags.patience

    assert app(["--patience", "7"], exit_on_error=False) == "7"
    app(["--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    group = shown[shown.index(f"─ {OptionGroup.LINKS} ─") :]
    assert "--patience INT steps that a link waits for its turn (1 to 9) [default: 3]" in group[: group.index("╰")]


def test_a_new_field_is_a_typed_keyword_argument() -> None:
    assert set(option_types(PATIENT).splitlines()) - set(option_types(OPTIONS).splitlines()) == {"    patience: int"}


def test_a_new_field_is_refused_without_the_option_that_it_needs() -> None:
    consistency.require_used(patient(patience=3))
    consistency.require_used(patient(patience=4, relabel=True))
    with pytest.raises(ScenarioError, match="invalid patience 4: only nodes that are called by ranks have patience"):
        consistency.require_used(patient(patience=4))


def test_a_new_field_leaves_other_fingerprints_unchanged() -> None:
    before = grid._described(Scenario.model_validate(BASE))
    assert grid._described(patient()) == before
    assert grid._described(patient(patience=4)) == before | {"patience": 4}


def test_a_new_field_of_the_record_takes_the_value_of_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PatientSpec] = []

    def record(**values: Any) -> CollectiveSpec:
        made.append(PatientSpec(**values))
        raise ScenarioError("patience", None, "enough seen")

    record._fields = PatientSpec._fields  # type: ignore[attr-defined]  # the plan reads them
    monkeypatch.setattr(collective, "CollectiveSpec", record)
    with pytest.raises(ScenarioError, match="enough seen"):
        collective.collective_spec(patient(patience=5, redundancy=2), parse_topology("star:3"))
    assert (made[0].patience, made[0].redundancy, made[0].topology) == (5, 2, "star:3")


def test_a_new_field_of_a_record_crosses_the_wire_and_is_checked() -> None:
    class Links(NamedTuple):
        patience: Annotated[int, Bounds(1, 9)]
        names: tuple[str, ...] = ()
        spec: CollectiveSpec | None = None

    record = Links(4, ("a", "b"))
    _, *values = wire.decode_control(wire.encode_control("links", *encode_record(record)))
    assert decode_record(Links, values) == record
    for wrong in ([10, [], None], [4, [1], None], [4, [], 7], [4, []], [True, [], None], 4):
        with pytest.raises(FrameError):
            decode_record(Links, wrong)


def test_a_record_with_a_field_of_another_type_is_refused() -> None:
    class Links(NamedTuple):
        patience: dict[str, int]

    with pytest.raises(TypeError, match="cannot be dict"):
        decode_record(Links, [{}])


def test_other_drivers_have_no_settings_of_processes() -> None:
    values = BASE | {"driver": "docker", "hang_by": "disconnect", "ranks_per_host": 2, "seed": 7}
    assert Scenario.model_validate(values).on_driver("memory") == Scenario.model_validate(BASE | {"seed": 7})


def test_a_model_makes_its_schema_once_for_all_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes milliseconds, and every flag of a command reads it."""

    class Counted(Scenario):
        made: ClassVar[int] = 0

        @classmethod
        def model_json_schema(cls, *others: Any, **more: Any) -> dict[str, Any]:
            monkeypatch.setattr(cls, "made", cls.made + 1)
            return super().model_json_schema(*others, **more)

    make_flags("CountedFlags", {}, options=options_of(Counted))
    assert Counted.made == 1


def test_allowed_numbers_are_said_in_words() -> None:
    class Loose(Scenario):
        any_number: Annotated[int, Option(OptionGroup.CODE)] = Field(0, description="without bounds")
        small_number: Annotated[int, Option(OptionGroup.CODE)] = Field(0, le=5, description="with one bound")

    allowed = {
        "any_number": "a whole number",
        "small_number": "a whole number of at most 5",
        "packet_limit": "a whole number from 1 to 2147483647",
        "lateness_limit": "a number above 0, at most 1",
        "segments": "a whole number from 1 to 33554432, or 'auto'",
        "link_capacity": "a whole number from 1 to 2147483647, or 'auto', or 'unlimited'",
    }
    options = {**OPTIONS, **options_of(Loose)}
    assert {name: options[name].allowed for name in allowed} == allowed
