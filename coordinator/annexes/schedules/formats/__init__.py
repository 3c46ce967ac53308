"""The formats of schedule files, one module for each; `coordinator.annexes.schedules.registry` finds them here."""
