"""Faults and their effect on packets."""

# Kinds register themselves when they are imported, and every reader of scenarios or records has to know all of them.
from emunode.faults import byzantine as byzantine
from emunode.faults import slowness as slowness
