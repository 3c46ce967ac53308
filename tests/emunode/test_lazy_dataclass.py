"""Lazy dataclasses beside standard ones: the same behaviour, whichever of their methods is used first."""

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Generic, TypeVar

import pytest

from emunode.lazy_dataclass import dataclass as lazy

Decorator = Callable[..., Any]
Value = TypeVar("Value")


def classes(decorate: Decorator) -> Mapping[str, Any]:
    """Return the same classes, decorated by one of both decorators."""

    @decorate(frozen=True)
    class Base:
        """A base class."""

        rank: int
        ports: tuple[int, ...] = ()

    @decorate(frozen=True)
    class Derived(Base):
        """A class with fields of its own, a factory and a method of its own."""

        names: list[str] = dataclasses.field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            if self.rank < 0:
                raise ValueError("a negative rank")

        def __repr__(self) -> str:
            return f"{super().__repr__()} by hand"

    class Plain(Derived):
        """A subclass that is not decorated."""

    @decorate(frozen=True, kw_only=True, repr=False)
    class Keywords(Base):
        """Fields that are given by name."""

        step: int = 1

    @decorate(frozen=True, slots=True)
    class Slotted(Derived):
        """A subclass with slots: both decorators do the same for it."""

        last: int = 2

    @decorate
    class Mutable:
        """A class whose instances can be altered."""

        rank: int = 0

    @decorate(frozen=True, eq=False)
    class ByIdentity(Generic[Value]):
        """Instances that are equal to themselves alone."""

        rank: int = 0

    made = (Base, Derived, Plain, Keywords, Slotted, Mutable, ByIdentity)
    return {each.__name__: each for each in made}


def raised(call: Callable[[], object]) -> str:
    """Return the error of a call, without addresses; nothing if it succeeds."""
    try:
        call()
    except Exception as error:
        return repr(error)
    return ""


def matched(instance: object, record: Any) -> object:
    """Return the first value of an instance by its position in a pattern."""
    match instance:
        case record(first):
            return first
    return None


USES: Mapping[str, Callable[[Any], object]] = {
    "repr": lambda record: repr(record(3)).rpartition(".")[2].split(" at ")[0],
    "equal": lambda record: (record(3) == record(3), record(3) == record(4), record(3) == 3),
    "hash": lambda record: raised(lambda: hash(record(3))) or len({record(3), record(3), record(4)}),
    "assignment": lambda record: raised(lambda: setattr(record(3), "rank", 4)),
    "other assignment": lambda record: raised(lambda: setattr(record(3), "other", 4))[:20],
    "deletion": lambda record: raised(lambda: delattr(record(3), "rank")),
    "missing value": raised,
    "wrong name": lambda record: raised(lambda: record(3, nothing=1)),
    "refused value": lambda record: raised(lambda: record(-1)),
    "fields": lambda record: [
        (each.name, each.type, each.kw_only, each.compare) for each in dataclasses.fields(record)
    ],
    "values": lambda record: dataclasses.asdict(record(3)),
    "replaced": lambda record: dataclasses.asdict(dataclasses.replace(record(3), rank=5)),
    "copied": lambda record: vars(copy.copy(record(3))) if hasattr(record(3), "__dict__") else "slots",
    "is a dataclass": lambda record: (dataclasses.is_dataclass(record), dataclasses.is_dataclass(record(3))),
    "signature": lambda record: str(inspect.signature(record)),
    "pattern": lambda record: matched(record(3), record),
    "options": lambda record: repr(record.__dataclass_params__),
}


@pytest.fixture(scope="module")
def expected() -> Mapping[str, Mapping[str, object]]:
    """The result of each use by the name of the class, with the standard decorator."""
    return {name: uses(record, USES) for name, record in classes(dataclasses.dataclass).items()}


def uses(record: Any, names: Iterable[str]) -> Mapping[str, object]:
    """Return the result of each use of a class, in the order of the names."""
    return {name: USES[name](record) for name in names}


@pytest.mark.parametrize("first", USES)
def test_every_first_use_is_as_with_the_standard_decorator(
    first: str, expected: Mapping[str, Mapping[str, object]]
) -> None:
    """All other uses follow the first one."""
    order = dict.fromkeys([first, *USES])
    assert {name: uses(record, order) for name, record in classes(lazy).items()} == expected


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_first_use_a_class_at_once_find_methods(
    expected: Mapping[str, Mapping[str, object]],
) -> None:
    """Each thread begins with another use of the same classes."""
    threads, order = 4, list(USES)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(20):
            made, together = classes(lazy), Barrier(threads)

            def use_all(first: int, made: Mapping[str, Any] = made, together: Barrier = together) -> object:
                turned = order[first:] + order[:first]
                together.wait(60)
                return {name: uses(record, turned) for name, record in made.items()}

            for found in pool.map(use_all, range(threads)):
                assert found == expected


def test_a_base_learns_of_no_further_subclass() -> None:
    learned: list[str] = []

    class Family:
        """A class that learns of its subclasses."""

        def __init_subclass__(cls, **options: object) -> None:
            learned.append(cls.__name__)

    @lazy(frozen=True)
    class Member(Family):
        """A record in a family."""

        rank: int

    assert Member(3) == Member(3)
    assert Member.__mro__ == (Member, Family, object)
    assert learned == ["Member"]


@lazy(frozen=True)
class Stored:
    """A record that is unpickled in another process before it is made there."""

    rank: int


def test_instances_that_no_constructor_made_compare_by_value() -> None:
    first, second = (Stored.__new__(Stored) for _ in range(2))
    for instance in (first, second):
        vars(instance).update(rank=3)
    assert "first_call" in Stored.__eq__.__qualname__, "nothing has been generated yet"
    assert first == second
    assert pickle.loads(pickle.dumps(first)) == Stored(3)
    assert "first_call" not in Stored.__eq__.__qualname__


def test_methods_of_unused_classes_are_not_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[str] = []
    standard = dataclasses.dataclass

    def counting(**options: bool) -> Decorator:
        def decorate(record: type) -> type:
            generated.append(record.__name__)
            return standard(**options)(record)

        return decorate

    monkeypatch.setattr(dataclasses, "dataclass", counting)
    made = classes(lazy)
    # A class with slots is another class, and needs the fields of its bases; other instances can be altered.
    assert sorted(generated) == ["Base", "Derived", "Mutable", "Slotted"]
    assert made["Keywords"](rank=1) == made["Keywords"](rank=1)
    assert "ByIdentity" not in generated
