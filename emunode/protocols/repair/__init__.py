"""Rules of repair, one file each; `emunode.algorithms.repair` has their interface and their registry."""
