"""Interconnection networks: labels, ports, arithmetic."""
