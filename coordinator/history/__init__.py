"""The record of a run: journal, timetable, run directory."""
