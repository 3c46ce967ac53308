"""Host processes: sessions, placement, start-up."""
