"""Networks that execute a plan: in memory, over host processes, under the timed clock."""
