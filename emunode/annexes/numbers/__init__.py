"""Real numbers as messages: their types, contributions, and sums in the order of the timetable."""
