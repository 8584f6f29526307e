/* A block of words goes round the ring of ranks; every rank changes it on the way.
 *
 *   storm-mpicc -O2 -o ring ring.c
 *   storm submit -n 16 ./ring [laps] [words]
 *
 * Blocking sends and receives. The same program in Rust: ../src/ring.rs. */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Spreads a number over all bits (SplitMix64). */
static uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
  return word ^ (word >> 31);
}

/* The change of the block by a rank. */
static void change(uint64_t *block, int words, int rank) {
  for (int i = 0; i < words; i++) block[i] = mix(block[i] + (uint64_t)rank);
}

static uint64_t check_sum(const uint64_t *block, int words) {
  uint64_t sum = 0;
  for (int i = 0; i < words; i++) sum += mix(block[i] ^ mix((uint64_t)i));
  return sum;
}

int main(int argc, char **argv) {
  int rank, size, right = 1;
  int laps = argc > 1 ? atoi(argv[1]) : 10, words = argc > 2 ? atoi(argv[2]) : 1000;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2 || laps < 0 || words < 0) {
    if (rank == 0) fprintf(stderr, "usage: ring [laps] [words], on at least 2 ranks\n");
    MPI_Finalize();
    return 2;
  }

  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  uint64_t *block = calloc((size_t)words + 1, sizeof *block);
  uint64_t *alone = calloc((size_t)words + 1, sizeof *alone);
  if (!block || !alone) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < words; i++) block[i] = alone[i] = (uint64_t)i;
  for (int lap = 0; lap < laps; lap++) {
    if (rank == 0) MPI_Send(block, words, MPI_UINT64_T, next, 0, MPI_COMM_WORLD);
    MPI_Recv(block, words, MPI_UINT64_T, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    change(block, words, rank);
    if (rank != 0) MPI_Send(block, words, MPI_UINT64_T, next, 0, MPI_COMM_WORLD);
  }

  /* Rank 0 has the final block. It compares it with the result of one process alone. */
  if (rank == 0) {
    for (int lap = 0; lap < laps; lap++)
      for (int who = 1; who <= size; who++) change(alone, words, who % size);
    right = check_sum(block, words) == check_sum(alone, words);
    printf("ring: %d ranks, %d laps of %d words, check sum %016" PRIx64 ", %s\n", size, laps,
           words, check_sum(block, words), right ? "OK" : "WRONG");
  }
  free(block);
  free(alone);
  MPI_Finalize();
  return right ? 0 : 1;
}
