"""Algorithms for any connected network, by shortest paths, spanning trees and flows."""
