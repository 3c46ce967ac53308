"""The formats of schedule files, one module for each; `coordinator.schedules.registry` finds them here."""
