"""Tests of programs together with other annexes are left out where one of these is not installed."""

from coordinator.annexes import installed

collect_ignore = [] if {"numbers", "proofs"} <= {*installed()} else ["test_adding_programs.py"]
