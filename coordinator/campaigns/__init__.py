"""Campaigns and certificates, and the trials that both run."""
