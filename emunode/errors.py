"""The exceptions of both packages. The class tells whose mistake an error is; the message names the allowed values."""


class EmulatorError(Exception):
    """Base of every exception that this software raises on purpose."""


class ScenarioError(EmulatorError):
    """The user asked for something that does not exist or is not possible: exit status 2."""

    exit_status = 2
    """The exit status of a command that ends with this error."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {allowed}" if value is None else f"invalid {field} {value!r}: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class RegistrationError(EmulatorError):
    """A topology, an algorithm or a fault kind cannot be registered: its author's mistake."""


class ContractError(EmulatorError, AssertionError):
    """A topology or a tree does not keep its interface's promises: its author's mistake."""


class RuleError(EmulatorError):
    """An algorithm's rule broke the port model, the capacity of its own links, or causality: its author's mistake."""


class FaultError(RuleError):
    """The code of a kind of fault failed, such as that of a plug-in: its author's mistake."""


class FrameError(EmulatorError):
    """A peer sent malformed bytes, or failed to authenticate: the peer's mistake."""


class RunError(EmulatorError):
    """The run could not be started or finished on this machine: exit status 4."""


class DeadlineError(RunError):
    """A program that plays a node did not answer in time: the run proves nothing."""
