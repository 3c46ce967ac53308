"""The exceptions of both packages. The class tells whose mistake an error is; the message names the allowed values."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

PLUGIN_HINT: Final = "defined by a plug-in? add --plugin FILE"


def did_you_mean(name: str, known: Iterable[str], after: str = "") -> str:
    """Return a question about the known name that is nearest, followed by what was typed `after` it; else nothing.

    >>> did_you_mean("crsh", ["crash", "loss"], ":4231@2")
    "did you mean 'crash:4231@2'? "
    """
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0] + after!r}? " if near else ""


class EmulatorError(Exception):
    """Base of every exception that this software raises on purpose.

    >>> from emunode.topologies.registry import parse_topology
    >>> try:
    ...     parse_topology("star:1")
    ... except EmulatorError as error:
    ...     print(type(error).__name__)
    ...
    ScenarioError
    """


class ScenarioError(EmulatorError):
    """The user asked for something that does not exist or is not possible: exit status 2.

    >>> from emunode.topologies.registry import parse_topology
    >>> parse_topology("star:1")
    Traceback (most recent call last):
        ...
    emunode.errors.ScenarioError: invalid topology 'star:1': the permutation star graph S_n needs n >= 3
    """

    exit_status = 2
    """The exit status of a command that ends with this error."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {allowed}" if value is None else f"invalid {field} {value!r}: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class RegistrationError(EmulatorError):
    """A topology, an algorithm or a fault kind cannot be registered: its author's mistake.

    >>> from emunode.faults.kinds import LinkFault
    >>> from emunode.registry import register
    >>> register(LinkFault)
    Traceback (most recent call last):
        ...
    emunode.errors.RegistrationError: fault kind emunode.faults.kinds.LinkFault does not define form, evidence
    """


class ContractError(EmulatorError, AssertionError):
    """A topology or a tree does not keep its interface's promises: its author's mistake.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> from emunode.trees.base import Trees, levels
    >>> class Ring(Trees):
    ...     def parent(self, rank, tree):
    ...         return 0
    ...
    ...     def child_ports(self, rank, tree):
    ...         return (0,)
    ...
    >>> levels(Ring(Hypercube(2)), 0)
    Traceback (most recent call last):
        ...
    emunode.errors.ContractError: tree 0 of hypercube:2 reaches 00 twice
    """


class RuleError(EmulatorError):
    """An algorithm's rule broke the port model, the capacity of its own links, or causality: its author's mistake.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> from emunode.trees.base import Trees
    >>> class Circle(Trees):
    ...     def parent(self, rank, tree):
    ...         return 0
    ...
    >>> Circle(Hypercube(2)).route(3, 0)
    Traceback (most recent call last):
        ...
    emunode.errors.RuleError: Circle tree 0 of hypercube:2 has a cycle through rank 3
    """


class FaultError(RuleError):
    """The code of a kind of fault failed, such as that of a plug-in: its author's mistake.

    >>> from emunode.faults.injector import Faults
    >>> from emunode.faults.kinds import Loss
    >>> from emunode.topologies.hypercube import Hypercube
    >>> class Broken(Loss):
    ...     def apply(self, transit):
    ...         raise ValueError("not a rate")
    ...
    >>> faults = Faults(Hypercube(2), 1)
    >>> faults.apply([Broken(step=1, sender=0, port=0, rate=1.0)])
    >>> faults.transit(1, 0, 0, ())
    Traceback (most recent call last):
        ...
    emunode.errors.FaultError: fault loss at rank 0, port 0, step 1: ValueError: not a rate
    """


class FrameError(EmulatorError):
    """A peer sent malformed bytes, or failed to authenticate: the peer's mistake.

    >>> from emunode.net.wire import decode_control
    >>> decode_control(b"no msgpack")
    Traceback (most recent call last):
        ...
    emunode.errors.FrameError: malformed msgpack data: unpack(b) received extra data.
    """


class RunError(EmulatorError):
    """The run could not be started or finished on this machine: exit status 4.

    >>> issubclass(DeadlineError, RunError)
    True
    """


class DeadlineError(RunError):
    """A program that plays a node did not answer in time: the run proves nothing.

    >>> error = DeadlineError("no answer within 5 s")
    >>> isinstance(error, RunError), str(error)
    (True, 'no answer within 5 s')
    """
