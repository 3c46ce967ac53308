"""The folder for notes about files that runs create outside their run directories, for `coordinator clean`."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the state folder of this user, by the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "collective-testbench"
