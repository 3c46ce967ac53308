"""The diagram of a run in space and time: nodes down, time across, packets as lines."""
