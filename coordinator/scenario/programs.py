"""The program that plays the nodes of a scenario, and whether it may run.

A scenario names a command line, such as `./node` or `awk -f flood.awk`. Words that are files become absolute paths; the
first word is looked up like a command. Stored scenarios add a digest over all words and the content of those files. As
with plug-ins, a program is executed only if the user names it: a scenario file that names one is not enough.
"""

import shlex
from hashlib import sha256
from pathlib import Path
from shutil import which
from typing import Annotated, Final

from pydantic import Field

from coordinator.scenario.added_options import AddedOptions
from coordinator.scenario.model import Seconds
from coordinator.scenario.option import Option, OptionGroup
from coordinator.scenario.reach import BY_DIGEST, DATA
from emunode.errors import ScenarioError
from emunode.programs import ALLOWED, command_text
from emunode.registry import register

DIGEST: Final = "@sha256:"
MAX_FILE_BYTES: Final = 2**28
MAX_WORDS: Final = 64
DRIVERS: Final = ("memory", "local")
"""The drivers whose hosts can start a program of this machine."""


@register
class ProgramOptions(AddedOptions):
    """Options of programs that play the nodes."""

    before = "seed"

    program: Annotated[str | None, Option(OptionGroup.CODE, reach=BY_DIGEST)] = Field(
        None, max_length=4096, description="command of the program that plays each node, for --algorithm program"
    )
    program_deadline: Annotated[Seconds, Option(OptionGroup.CODE, reach=DATA)] = Field(
        5.0, gt=0, le=60, description="how long a program may take for an answer"
    )


def allow_program(text: str, folder: Path | None = None) -> str:
    """Allow a command line that the user gave, with files relative to `folder`; returns the value of a scenario.

    ScenarioError (field `program`) if it is not a command, or has another digest than `text` says.
    """
    program = resolved_program(text, folder or Path.cwd())
    ALLOWED.add(command_text(shlex.split(command_of(program))))
    return program


def resolved_program(text: str, folder: Path) -> str:
    """Return a command line with absolute paths and its digest; ScenarioError (field `program`) if it is not a command."""
    command, _, said = text.partition(DIGEST)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScenarioError("program", text, f"it is not a command line: {error}") from None
    if not 0 < len(words) <= MAX_WORDS:
        raise ScenarioError("program", text, f"expected a command line of 1 to {MAX_WORDS} words")
    first = words[0] if "/" not in words[0] else str(folder.absolute() / words[0])
    found = which(first)
    if found is None:
        raise ScenarioError("program", text, f"{words[0]} is not an executable file")
    # A name of a command is found in the path, and a file in the folder of the same name is not meant.
    paths = [Path(found), *(folder.absolute() / word for word in words[1:])]
    digest = sha256()
    for place, path in enumerate(paths):
        if path.is_file():
            words[place] = str(path)
            digest.update(b"file\0" + sha256(_content(path, text)).digest())
        else:
            digest.update(b"word\0" + words[place].encode() + b"\0")
    found_sha256 = digest.hexdigest()
    if said not in ("", found_sha256):
        raise ScenarioError(
            "program", command.strip(), f"digest mismatch: the scenario says {said}, it has {found_sha256}"
        )
    return f"{shlex.join(words)} {DIGEST}{found_sha256}"


def require_program_named(program: object, named: str | None) -> str:
    """Return the program of a scenario file; ScenarioError (field `program`) unless the user names it too."""
    if not isinstance(program, str):
        raise ScenarioError("program", program, "expected a command line as text")
    command, _, said = program.partition(DIGEST)
    command = command.strip()
    if named is None:
        remedy = f"add --program {shlex.quote(command)}"
        raise ScenarioError(
            "program", command, f"the scenario names it, and it is executed only if you name it too: {remedy}"
        )
    if said and not named.endswith(DIGEST + said):
        raise ScenarioError("program", named, f"digest mismatch: the scenario says {said}")
    return named


def command_of(program: str) -> str:
    """Return the command line of a scenario's program, without its digest."""
    return program.partition(DIGEST)[0].strip()


def is_allowed(program: str) -> bool:
    """Return whether the program of a scenario may be executed in this process."""
    return command_text(shlex.split(command_of(program))) in ALLOWED


def with_digest(program: str) -> str:
    """Return the program of a scenario with its digest; a program that has a digest need not exist on this machine."""
    return program if DIGEST in program else resolved_program(program, Path.cwd())


def _content(path: Path, text: str) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ScenarioError("program", text, f"{path} has more than {MAX_FILE_BYTES:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError("program", text, f"{path} cannot be read: {error.strerror}") from None
