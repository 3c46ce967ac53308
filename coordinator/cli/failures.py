"""Errors as messages, as JSON records and as exit statuses."""

import contextlib
import traceback
from difflib import get_close_matches

from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

from coordinator.api.console import say_wrapped
from emunode.errors import EmulatorError, FaultError, RuleError, ScenarioError
from emunode.terminal import print_json, say

INTERNAL = "internal error: "


def report_error(error: BaseException, as_json: bool) -> int:
    """Print an error on standard error, with `as_json` also as JSON on standard output; return its exit status."""
    while isinstance(error, BaseExceptionGroup):  # of tasks that failed together, the first names the cause
        error = error.exceptions[0]
    message, status = describe(error)
    with contextlib.suppress(OSError):  # where nothing can be written, the status remains
        if message.startswith(INTERNAL):
            say("".join(traceback.format_exception(error)), err=True, end="")
        say_wrapped(f"coordinator: {message}", err=True)
        if as_json:
            print_json({"error": _record(error, message), "exit_status": status})
    return status


def describe(error: BaseException) -> tuple[str, int]:
    """Return the message of an error and its exit status."""
    match error:
        case CycloptsError():
            return _usage_error(error), 2
        case ScenarioError():
            return str(error), error.exit_status
        case KeyboardInterrupt():
            return "interrupted", 130
    return _machine_message(error), 4


def _machine_message(error: BaseException) -> str:
    match error:
        case FaultError():
            return f"error in a kind of fault: {error}"
        case RuleError():
            return f"algorithm error: {error}"
        case EmulatorError():
            return str(error)
        case OSError():
            return f"operating system error: {error}"
        case MemoryError():
            return "out of memory"
    return f"{INTERNAL}{type(error).__name__}: {error}"


def _record(error: BaseException, message: str) -> dict[str, object]:
    """Return an error as plain values; for a scenario error also the field, its value and the allowed values."""
    record: dict[str, object] = {"kind": type(error).__name__, "message": message}
    if isinstance(error, ScenarioError):
        value = error.value if isinstance(error.value, str | int | float | None) else str(error.value)
        record |= {"field": error.field, "value": value, "allowed": error.allowed}
    return record


def _usage_error(error: CycloptsError) -> str:
    """Return the message of cyclopts, and where the flags are listed."""
    command = " ".join(["coordinator", *(error.command_chain or ())])
    return f"{_usage_message(error)}\n  see `{command} --help`"


def _usage_message(error: CycloptsError) -> str:
    """Return the message of cyclopts; for an abbreviated flag, the flags that begin with it."""
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"Unexpected argument: {' '.join(error.unused_tokens)}. Options have names: --option VALUE"
    if isinstance(error, UnknownOptionError):
        given = error.token.keyword or error.token.value
        flags = [flag for argument in error.argument_collection for flag in argument.names if flag.startswith(given)]
        # Another word of the same length is no misspelling.
        names = [name for argument in error.argument_collection for name in argument.names]
        flags = flags or get_close_matches(given, names, n=1, cutoff=0.75)
        meant = f" Did you mean {' or '.join(flags)}?" if flags else ""
        return f"Unknown option: {given}.{meant}"
    return str(error).strip()
