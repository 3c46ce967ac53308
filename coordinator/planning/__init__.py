"""From a scenario to a plan, and its needs."""
