"""Health check: a host is connected to its coordinator, a coordinator listens. Exit status 0 or 1."""

import sys
from pathlib import Path

ESTABLISHED, LISTENING = "01", "0A"

sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
mine = [state for _, local, _, state, *_ in sockets if not local.startswith("0B00007F")]  # not the engine's name server
sys.exit(0 if {ESTABLISHED, LISTENING}.intersection(mine) else 1)
