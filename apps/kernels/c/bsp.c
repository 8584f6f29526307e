/* Supersteps of a bulk-synchronous program: compute for a while, exchange, again.
 *
 *   storm-mpicc -O2 -o bsp bsp.c
 *   storm submit -n 16 ./bsp [--option value]...
 *
 *   --steps N              supersteps (100)
 *   --granularity US       computing between two exchanges of the rank that computes least, in
 *                          microseconds of processor time (1000)
 *   --imbalance FACTOR     computing of the ranks with more work, as a multiple of the others' (1)
 *   --heavy WHO            lower or upper half of the ranks, or random: in each step every rank
 *                          draws a factor between 1 and the imbalance (upper)
 *   --heterogeneity FACTOR slowness of the last rank, as a multiple of the first's; the others lie
 *                          in proportion (1)
 *   --exchange HOW         barrier, neighbours on a ring (non-blocking), or all to all (neighbours)
 *   --words N              words of 8 bytes in each message (16)
 *
 * Computing is processor time used, not time passed: a rank that is stopped meanwhile has as much
 * left as before. The same program in Rust: ../src/bsp.rs. */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Rounds of mix between two readings of the clock: under a microsecond. */
#define ROUNDS 256

static int rank, size, steps = 100, granularity_us = 1000, words = 16;
static double imbalance = 1.0, heterogeneity = 1.0;
static const char *heavy = "upper", *exchange = "neighbours";
/* The words of this rank, and room for the messages. */
static uint64_t *state, *out, *in;

/* Spreads a number over all bits (SplitMix64). */
static uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
  return word ^ (word >> 31);
}

static uint64_t term(uint64_t place, uint64_t word) { return mix(word ^ mix(place)); }

/* The number of this place in a sequence that looks random, at least 0 and below 1. */
static double unit(uint64_t place) {
  return (double)(mix(place + UINT64_C(0x9e3779b97f4a7c15)) >> 11) / (double)(UINT64_C(1) << 53);
}

static int is(const char *text, const char *name) { return strcmp(text, name) == 0; }

/* Reads the arguments. Returns whether they can be run. */
static int read_arguments(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    const char *value = argv[i + 1];
    if (!value) return 0;
    if (is(argv[i], "--steps")) steps = atoi(value);
    else if (is(argv[i], "--granularity")) granularity_us = atoi(value);
    else if (is(argv[i], "--imbalance")) imbalance = atof(value);
    else if (is(argv[i], "--heavy")) heavy = value;
    else if (is(argv[i], "--heterogeneity")) heterogeneity = atof(value);
    else if (is(argv[i], "--exchange")) exchange = value;
    else if (is(argv[i], "--words")) words = atoi(value);
    else return 0;
  }
  return steps >= 0 && granularity_us >= 0 && words >= 0 && imbalance >= 1.0 &&
         heterogeneity >= 1.0 && (is(heavy, "lower") || is(heavy, "upper") || is(heavy, "random")) &&
         (is(exchange, "barrier") || is(exchange, "neighbours") || is(exchange, "all"));
}

/* The computing time of this rank in a step, in seconds. */
static double budget_s(int step) {
  double more, slower = size > 1 ? (double)rank / (size - 1) : 0.0;
  if (is(heavy, "lower")) more = rank < size / 2;
  else if (is(heavy, "upper")) more = rank >= size - size / 2;
  else more = unit((uint64_t)rank << 32 | (uint64_t)step);
  return granularity_us * 1e-6 * (1.0 + (imbalance - 1.0) * more) *
         (1.0 + (heterogeneity - 1.0) * slower);
}

static double used_s(void) {
  struct timespec used;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* Computes until this thread has used its budget of the processor. Returns the time used. */
static double compute(double seconds) {
  if (seconds <= 0.0) return 0.0;
  static volatile uint64_t word;
  double begin = used_s(), so_far;
  do {
    for (int i = 0; i < ROUNDS; i++) word = mix(word);
    so_far = used_s() - begin;
  } while (so_far < seconds);
  return so_far;
}

/* Every rank's words go both ways round a ring, to the next rank. */
static void exchange_with_neighbours(void) {
  enum { RIGHTWARD, LEFTWARD };
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  uint64_t *from_left = in, *from_right = in + words;
  MPI_Request requests[4];
  MPI_Irecv(from_left, words, MPI_UINT64_T, left, RIGHTWARD, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(from_right, words, MPI_UINT64_T, right, LEFTWARD, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(state, words, MPI_UINT64_T, right, RIGHTWARD, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(state, words, MPI_UINT64_T, left, LEFTWARD, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < words; i++) state[i] = mix(state[i] ^ from_left[i]) + mix(from_right[i]);
}

/* Every rank's words go to every rank, with the receiver's number mixed in. */
static void exchange_with_all(void) {
  for (int to = 0; to < size; to++)
    for (int i = 0; i < words; i++) out[to * words + i] = state[i] ^ (uint64_t)to;
  MPI_Alltoall(out, words, MPI_UINT64_T, in, words, MPI_UINT64_T, MPI_COMM_WORLD);
  for (int from = 0; from < size; from++)
    for (int i = 0; i < words; i++) state[i] = mix(state[i] + in[from * words + i]);
}

static void run(void) {
  uint64_t sum = 0, whole_sum;
  double computed = 0.0, mean;
  for (int i = 0; i < words; i++) state[i] = term((uint64_t)rank, (uint64_t)i);
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (int step = 0; step < steps; step++) {
    computed += compute(budget_s(step));
    if (is(exchange, "barrier")) MPI_Barrier(MPI_COMM_WORLD);
    else if (is(exchange, "all")) exchange_with_all();
    else exchange_with_neighbours();
    for (int i = 0; i < words; i++) state[i] = mix(state[i] + (uint64_t)step);
  }
  double elapsed = MPI_Wtime() - begin;
  for (int i = 0; i < words; i++) sum += term((uint64_t)rank * words + i, state[i]);
  computed /= size;
  MPI_Allreduce(&sum, &whole_sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&computed, &mean, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("bsp: %d ranks, %d steps, check sum %016" PRIx64 "\n", size, steps, whole_sum);
    printf("%.6f s, of which a rank computed %.6f s\n", elapsed, mean);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!read_arguments(argc, argv)) {
    if (rank == 0) fprintf(stderr, "bsp: wrong arguments; they are at the top of bsp.c\n");
    MPI_Finalize();
    return 2;
  }
  size_t room = (size_t)words * (size > 2 ? size : 2) + 1;
  state = calloc((size_t)words + 1, sizeof *state);
  out = calloc(room, sizeof *out);
  in = calloc(room, sizeof *in);
  if (!state || !out || !in) MPI_Abort(MPI_COMM_WORLD, 1);
  run();
  free(state);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
