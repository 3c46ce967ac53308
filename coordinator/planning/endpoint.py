"""Where hosts join a run that does not start them itself."""

from pathlib import Path
from typing import NamedTuple


class JoinEndpoint(NamedTuple):
    """Where hosts join that somebody else starts, and what they must know."""

    address: str
    port: int
    token_file: Path
    join_seconds: float
