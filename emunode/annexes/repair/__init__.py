"""Repair: the rules that nodes or the tree of a broadcast follow around faults, one file each."""
