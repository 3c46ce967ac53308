/* What MPI takes for the collectives of the benchmark, as one line of JSON.
 *
 * Arguments: bytes of a message, rounds. Every time is from the moment the last source calls until the last rank returns,
 * by the clock that all processes of one machine share. `ready` is when the last rank left MPI_Init, in seconds of the epoch.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int rank, ranks, bytes;
static char *out, *in;

static double timed(int collective) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = now(CLOCK_MONOTONIC);
    switch (collective) {
    case 0: MPI_Bcast(out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD); break;
    case 1: MPI_Allgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD); break;
    case 2: MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD); break;
    }
    double ended = now(CLOCK_MONOTONIC), last_began, last_ended;
    if (collective == 0 && rank) began = 0;
    MPI_Reduce(&began, &last_began, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&ended, &last_ended, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return last_ended - last_began;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    double left = now(CLOCK_REALTIME), ready;
    bytes = atoi(words[1]);
    int rounds = atoi(words[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = calloc(ranks, bytes);
    in = calloc(ranks, bytes);
    MPI_Reduce(&left, &ready, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    const char *names[] = {"broadcast", "allgather", "alltoall"};
    if (!rank) printf("{\"ready\": %.6f", ready);
    for (int collective = 0; collective < 3 && rounds; collective++) {
        if (!rank) printf(", \"%s\": [", names[collective]);
        for (int round = 0; round < rounds; round++) {
            double seconds = timed(collective);
            if (!rank) printf("%s%.9f", round ? ", " : "", seconds);
        }
        if (!rank) printf("]");
    }
    if (!rank) printf("}\n");
    MPI_Finalize();
    return 0;
}
