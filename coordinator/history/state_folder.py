"""Where notes are kept of what a run creates outside its run directory, so that `coordinator clean` can remove it."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Where runs of this user write down what they create outside their run directories."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "collective-testbench"
