"""The endpoint of a run whose hosts are started elsewhere."""

from pathlib import Path
from typing import NamedTuple


class JoinEndpoint(NamedTuple):
    """Where hosts join, and the token that they must know."""

    address: str
    port: int
    token_file: Path
    join_seconds: float
