"""One root, few leaves: whose fault it is decides the class, the message names the value and what is allowed."""


class EmulatorError(Exception):
    """Root of everything this software raises on purpose."""


class ScenarioError(EmulatorError):
    """The user asked for something that does not exist or cannot be: exit status 2."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {allowed}" if value is None else f"{field}: {value!r} will not do; {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class RuleError(EmulatorError):
    """An algorithm's rule broke the port model, its own link capacity, or causality: ours."""


class FrameError(EmulatorError):
    """A peer sent bytes that are no frame of ours, or did not prove who it is: theirs."""


class RunError(EmulatorError):
    """The run could not be started or finished on this machine: exit status 4."""
