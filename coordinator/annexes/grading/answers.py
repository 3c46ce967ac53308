"""The answers of a submission: one strict schema that every message of its process goes through.

The process is hostile, so a message may hold anything. What passes `read_answer` has the stated fields with the stated
types and no others; whether its values make sense is for the judge.
"""

from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from emunode.model import Port, Rank, Step

MOST_TREES: Final = 1024
LONGEST_PLACE: Final = 60
"""Characters of the place of a mistake: it may be a name that the submission made up."""
STRICT: Final = ConfigDict(strict=True, extra="forbid", frozen=True, val_json_bytes="hex")

GivenSegment = tuple[Rank, Rank, int, int, bytes]
"""Origin, target, tree, number and payload of a segment, as the submission states them."""
GivenSend = tuple[Rank, Port, GivenSegment]
Late = list[tuple[Rank, Step]]
"""The sends that a rank planned for a step that was over."""


class MalformedAnswerError(ValueError):
    """A message is no answer to its request."""


class _Record(BaseModel):
    model_config = STRICT


class Registered(_Record):
    """The declarations of an algorithm."""

    key: tuple[str, str, str]
    """Family, collective and name."""
    port_models: list[str]
    duplexes: list[str]
    built_in: str | None
    """The algorithm of this program that it is or derives from."""


class LoadedFile(_Record):
    """The definitions of a file."""

    algorithms: list[Registered]
    families: dict[str, list[str]]
    trees: list[str]


class NetworkTable(_Record):
    """A network of the submission."""

    title: str
    degree: int
    labels: list[str]
    neighbours: list[list[Rank]]


class ParentTable(_Record):
    """The parent of every rank in every tree: a label, a port, or None at the root."""

    trees: Annotated[list[list[str | int | None]], Field(max_length=MOST_TREES)]


class StatedClaim(NamedTuple):
    """A claim of the algorithm about a run."""

    name: str
    predicted: JsonValue
    relation: str
    source: str


class Opened(_Record):
    """The statements of an algorithm at the beginning of a run."""

    segments_per_message: int
    link_capacity: int | None
    max_redundancy: int
    tolerated_faults: int
    ack_bytes: int
    claims: list[StatedClaim]
    late: Late
    due: Step | None
    """The next step with a send that waits for no arrival."""


class StepTaken(_Record):
    """The sends of the ranks in a step."""

    sends: list[GivenSend]
    late: Late
    due: Step | None


Result = TypeVar("Result")


class SubmissionAnswer(_Record, Generic[Result]):
    """An answer: a result, or the reason why not; and what an honest process saw of its submission."""

    failed: str | None = None
    """An exception."""
    refused: tuple[str, str] | None = None
    """The field and the text of a ScenarioError."""
    given: Result | None = Field(default=None, alias="result")
    denied: list[str] = []
    """The calls that the audit hook refused."""
    forbidden: list[str] = []
    """The calls that no local rule needs, such as that of a clock: a hint."""

    @property
    def result(self) -> Result:
        """The result; only where there is no problem."""
        assert self.given is not None
        return self.given

    @property
    def problem(self) -> str | None:
        """Why there is no result."""
        return self.refused[1] if self.refused else self.failed


RESULTS: Final[dict[str, type[_Record]]] = {
    "load": LoadedFile, "network": NetworkTable, "parents": ParentTable, "open": Opened, "step": StepTaken,
}  # fmt: skip
"""The result of every request."""
_ADAPTERS: Final = {do: TypeAdapter(SubmissionAnswer[kind]) for do, kind in RESULTS.items()}  # type: ignore[valid-type]


def read_answer(do: str, data: bytes | bytearray) -> SubmissionAnswer[Any]:
    """Return the answer to the request `do`; MalformedAnswerError names the first field that is not as stated."""
    try:
        answer: SubmissionAnswer[Any] = _ADAPTERS[do].validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:LONGEST_PLACE]
        raise MalformedAnswerError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    if [answer.failed, answer.refused, answer.given].count(None) != 2:
        raise MalformedAnswerError("expected one of failed, refused and result")
    return answer
