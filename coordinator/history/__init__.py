"""What a run leaves: journal, timetable, run directory."""
