"""Rules of the collective algorithms of Open MPI 5: one module for each collective, one declaration for each algorithm."""
