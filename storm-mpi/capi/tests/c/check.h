/* The common part of the test programs: a check that prints where it failed, and ends the job. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank_, size_;

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "rank %d of %d: %s:%d: %s\n", rank_, size_, __FILE__, __LINE__,        \
              #condition);                                                                   \
      MPI_Abort(MPI_COMM_WORLD, 3);                                                          \
    }                                                                                        \
  } while (0)

#define OK(call) CHECK((call) == MPI_SUCCESS)

static inline void begin(int *argc, char ***argv) {
  OK(MPI_Init(argc, argv));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size_));
}
