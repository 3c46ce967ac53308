"""Campaigns, certificates and the trials that both run."""
