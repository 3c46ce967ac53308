"""Packing: a total exchange with one segment per packet and with `--link-capacity unlimited`, beside MPI_Alltoall.

With one segment per packet the paper's model bounds an exchange: as many steps as a link has segments to carry. Full packets
take as many steps as the network has links across, and their time is that of reading, checking and reporting segments.
"""

from benchmarks.baselines.mpi import packing_rows
from benchmarks.record import Section

SECTION = Section("a total exchange in full packets beside Open MPI", packing_rows, seconds=120)
