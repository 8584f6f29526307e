/* Messages and collectives of two ranks. For each size, `message` goes there and back for a while,
 * as in NetPIPE; its time is half of a round trip. A collective is repeated for a while, ended by a
 * barrier. Each is measured several times, and the best counts. Prints "bytes microseconds" lines.
 * Reductions have doubles as elements.
 * usage: pingpong WHAT SECONDS-PER-SIZE SIZE... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 5, WARM_UP = 20, RANKS = 2 };

static int rank;
static const MPI_Comm world = MPI_COMM_WORLD;

static void message(char *data, char *result, int bytes) {
  int other = 1 - rank;
  (void)result;
  if (rank == 0) {
    MPI_Send(data, bytes, MPI_BYTE, other, 1, world);
    MPI_Recv(data, bytes, MPI_BYTE, other, 1, world, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(data, bytes, MPI_BYTE, other, 1, world, MPI_STATUS_IGNORE);
    MPI_Send(data, bytes, MPI_BYTE, other, 1, world);
  }
}

static int doubles(int bytes) { return (bytes + 7) / 8; }

static void barrier(char *data, char *result, int bytes) {
  (void)data, (void)result, (void)bytes;
  MPI_Barrier(world);
}

static void bcast(char *data, char *result, int bytes) {
  (void)result;
  MPI_Bcast(data, bytes, MPI_BYTE, 0, world);
}

static void reduce(char *data, char *result, int bytes) {
  MPI_Reduce(data, result, doubles(bytes), MPI_DOUBLE, MPI_SUM, 0, world);
}

static void allreduce(char *data, char *result, int bytes) {
  MPI_Allreduce(data, result, doubles(bytes), MPI_DOUBLE, MPI_SUM, world);
}

static void reduce_scatter(char *data, char *result, int bytes) {
  MPI_Reduce_scatter_block(data, result, doubles(bytes), MPI_DOUBLE, MPI_SUM, world);
}

static void scan(char *data, char *result, int bytes) {
  MPI_Scan(data, result, doubles(bytes), MPI_DOUBLE, MPI_SUM, world);
}

static void gather(char *data, char *result, int bytes) {
  MPI_Gather(data, bytes, MPI_BYTE, result, bytes, MPI_BYTE, 0, world);
}

static void scatter(char *data, char *result, int bytes) {
  MPI_Scatter(data, bytes, MPI_BYTE, result, bytes, MPI_BYTE, 0, world);
}

static void allgather(char *data, char *result, int bytes) {
  MPI_Allgather(data, bytes, MPI_BYTE, result, bytes, MPI_BYTE, world);
}

static void alltoall(char *data, char *result, int bytes) {
  MPI_Alltoall(data, bytes, MPI_BYTE, result, bytes, MPI_BYTE, world);
}

static const struct {
  const char *name;
  void (*once)(char *data, char *result, int bytes);
} all[] = {{"message", message},     {"barrier", barrier},
           {"bcast", bcast},         {"reduce", reduce},
           {"allreduce", allreduce}, {"reduce-scatter", reduce_scatter},
           {"scan", scan},           {"gather", gather},
           {"scatter", scatter},     {"allgather", allgather},
           {"alltoall", alltoall}};

/* Seconds for each. */
static double repeated(int what, char *data, char *result, int bytes, int times) {
  MPI_Barrier(world);
  double start = MPI_Wtime();
  for (int i = 0; i < times; i++) all[what].once(data, result, bytes);
  if (all[what].once == message) return (MPI_Wtime() - start) / times / 2;
  MPI_Barrier(world);
  return (MPI_Wtime() - start) / times;
}

static int named(const char *name) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strcmp(all[i].name, name) == 0) return (int)i;
  return -1;
}

int main(int argc, char **argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  int what = argc < 3 ? -1 : named(argv[1]);
  if (size != RANKS || what < 0) {
    fprintf(stderr, "two ranks, what to do, and the seconds for each size\n");
    MPI_Abort(world, 2);
  }
  double seconds = atof(argv[2]);
  for (int arg = 3; arg < argc; arg++) {
    int bytes = atoi(argv[arg]);
    size_t room = RANKS * 8 * ((size_t)bytes / 8 + 1);
    char *data = malloc(room), *result = malloc(room);
    memset(data, 0, room);
    memset(result, 0, room);
    double about = repeated(what, data, result, bytes, WARM_UP), best = 1e9;
    int times = (int)(seconds / TRIALS / (2 * about)) + 1;
    MPI_Bcast(&times, 1, MPI_INT, 0, world);
    for (int trial = 0; trial < TRIALS; trial++) {
      double time = repeated(what, data, result, bytes, times);
      if (time < best) best = time;
    }
    if (rank == 0) printf("%d %.3f\n", bytes, best * 1e6);
    free(data);
    free(result);
  }
  return MPI_Finalize();
}
