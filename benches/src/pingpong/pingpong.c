/* Ping-pong between ranks 0 and 1, as NetPIPE does it: for each size, messages there and back for a
 * while, several times; the best time counts. Prints "bytes one-way-microseconds" lines.
 * usage: pingpong SECONDS-PER-SIZE SIZE... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 5, WARM_UP = 20 };

static int rank;

static double exchanged(char *data, int bytes, int times) {
  int other = 1 - rank;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < times; i++) {
    if (rank == 0) {
      MPI_Send(data, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
      MPI_Recv(data, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(data, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(data, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
    }
  }
  return (MPI_Wtime() - start) / times / 2;
}

int main(int argc, char **argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || argc < 2) {
    fprintf(stderr, "two ranks, and the seconds for each size\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  double seconds = atof(argv[1]);
  for (int arg = 2; arg < argc; arg++) {
    int bytes = atoi(argv[arg]);
    char *data = malloc(bytes + 1);
    memset(data, rank, bytes + 1);
    double about = exchanged(data, bytes, WARM_UP), best = 1e9;
    int times = (int)(seconds / TRIALS / (2 * about)) + 1;
    MPI_Bcast(&times, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int trial = 0; trial < TRIALS; trial++) {
      double time = exchanged(data, bytes, times);
      if (time < best) best = time;
    }
    if (rank == 0) printf("%d %.3f\n", bytes, best * 1e6);
    free(data);
  }
  return MPI_Finalize();
}
