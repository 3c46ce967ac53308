"""Schedules from files of synthesisers and collective libraries, read and judged without a run."""
