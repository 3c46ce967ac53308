"""The coordinator: from a scenario to a plan, a run, a journal, a verdict and a report."""
