"""Judge of MPI libraries: the messages of their collectives, held against the rule of each algorithm."""
