"""From a scenario to a plan, and what it takes."""
