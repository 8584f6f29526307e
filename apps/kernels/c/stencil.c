/* Heat in a square plate whose upper border is hot: Jacobi iteration with a five-point stencil.
 *
 *   storm-mpicc -O2 -o stencil stencil.c
 *   storm submit -n 16 ./stencil [cells along a side] [steps]
 *
 * The plate is cut over a grid of processes (MPI_Cart_create). In each step the borders of the
 * parts travel to the neighbours (non-blocking; columns as MPI_Type_vector) while the inside is
 * computed.
 * The same program in Rust: ../src/stencil.rs. If a compiler joins multiplications and additions
 * (not on x86-64 unless told to), the bits are the same only with -ffp-contract=off. */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UP, DOWN, LEFT, RIGHT, SIDES };

/* This rank's part, with a row or column of cells around it that belong to others. */
static int rows, columns, first_row, first_column;
static double *now, *next;

static size_t at(int i, int j) { return (size_t)i * (columns + 2) + j; }

/* Spreads a number over all bits (SplitMix64). */
static uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
  return word ^ (word >> 31);
}

static uint64_t bits(double value) {
  uint64_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

/* Computes the next values of these cells. Returns the largest change, or `change` if larger. */
static double update(int i0, int i1, int j0, int j1, double change) {
  for (int i = i0; i <= i1; i++)
    for (int j = j0; j <= j1; j++) {
      double value = 0.25 * ((now[at(i - 1, j)] + now[at(i + 1, j)]) +
                             (now[at(i, j - 1)] + now[at(i, j + 1)]));
      double by = value > now[at(i, j)] ? value - now[at(i, j)] : now[at(i, j)] - value;
      if (by > change) change = by;
      next[at(i, j)] = value;
    }
  return change;
}

/* Makes one step. Returns the largest change of a cell of this rank. */
static double step(MPI_Comm grid, const int *neighbour, MPI_Datatype column) {
  const size_t edge[SIDES] = {at(1, 1), at(rows, 1), at(1, 1), at(1, columns)};
  const size_t halo[SIDES] = {at(0, 1), at(rows + 1, 1), at(1, 0), at(1, columns + 1)};
  MPI_Request requests[2 * SIDES];
  for (int side = 0; side < SIDES; side++) {
    MPI_Datatype type = side < LEFT ? MPI_DOUBLE : column;
    int count = side < LEFT ? columns : 1;
    /* A message's tag is the side that it left its sender by; side ^ 1 is the opposite one. */
    MPI_Irecv(&now[halo[side]], count, type, neighbour[side], side ^ 1, grid, &requests[side]);
    MPI_Isend(&now[edge[side]], count, type, neighbour[side], side, grid,
              &requests[SIDES + side]);
  }
  double change = update(2, rows - 1, 2, columns - 1, 0.0);
  MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
  change = update(1, 1, 1, columns, change);
  change = update(rows, rows, 1, columns, change);
  change = update(2, rows - 1, 1, 1, change);
  change = update(2, rows - 1, columns, columns, change);
  double *last = now;
  now = next;
  next = last;
  return change;
}

/* Prints the answer; gives whether it is possible: a mean of neighbours is never outside what the
 * borders are. */
static int report(MPI_Comm grid, int cells, int steps, double change) {
  uint64_t sum = 0, whole_sum;
  double heat = 0.0, whole_heat, extremes[3] = {change, 0.0, -1.0}, largest[3];
  int rank, size;
  for (int i = 1; i <= rows; i++)
    for (int j = 1; j <= columns; j++) {
      uint64_t place = (uint64_t)(first_row + i - 1) * cells + first_column + j - 1;
      double cell = now[at(i, j)];
      sum += mix(bits(cell) ^ mix(place));
      heat += cell;
      if (cell > extremes[1]) extremes[1] = cell;
      if (-cell > extremes[2]) extremes[2] = -cell;
    }
  MPI_Comm_rank(grid, &rank);
  MPI_Comm_size(grid, &size);
  MPI_Allreduce(&sum, &whole_sum, 1, MPI_UINT64_T, MPI_SUM, grid);
  MPI_Allreduce(extremes, largest, 3, MPI_DOUBLE, MPI_MAX, grid);
  /* Added in the order of the ranks: the same bits in every run with this number of ranks. */
  MPI_Allreduce(&heat, &whole_heat, 1, MPI_DOUBLE, MPI_SUM, grid);
  int right = largest[1] <= 1.0 && largest[2] <= 0.0;
  if (rank == 0)
    printf("stencil: %d ranks, %d x %d cells, %d steps, check sum %016" PRIx64
           ", last change %016" PRIx64 ", heat %016" PRIx64 ", %s\n",
           size, cells, cells, steps, whole_sum, bits(largest[0]), bits(whole_heat),
           right ? "OK" : "WRONG");
  return right;
}

int main(int argc, char **argv) {
  int rank, size, dims[2] = {0, 0}, periods[2] = {0, 0}, coords[2], neighbour[SIDES];
  int cells = argc > 1 ? atoi(argv[1]) : 256, steps = argc > 2 ? atoi(argv[2]) : 100;
  MPI_Comm grid;
  MPI_Datatype column;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Comm_rank(grid, &rank);
  if (cells < dims[0] || cells < dims[1] || steps < 0) {
    if (rank == 0) fprintf(stderr, "usage: stencil [cells] [steps], at least a cell per rank\n");
    MPI_Finalize();
    return 2;
  }
  MPI_Cart_coords(grid, rank, 2, coords);
  MPI_Cart_shift(grid, 0, 1, &neighbour[UP], &neighbour[DOWN]);
  MPI_Cart_shift(grid, 1, 1, &neighbour[LEFT], &neighbour[RIGHT]);
  first_row = (int)((long)cells * coords[0] / dims[0]);
  first_column = (int)((long)cells * coords[1] / dims[1]);
  rows = (int)((long)cells * (coords[0] + 1) / dims[0]) - first_row;
  columns = (int)((long)cells * (coords[1] + 1) / dims[1]) - first_column;
  MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);

  now = calloc(at(rows + 2, 0), sizeof *now);
  next = calloc(at(rows + 2, 0), sizeof *next);
  if (!now || !next) MPI_Abort(MPI_COMM_WORLD, 1);
  if (coords[0] == 0)
    for (int j = 1; j <= columns; j++) now[at(0, j)] = next[at(0, j)] = 1.0;

  double change = 0.0;
  for (int i = 0; i < steps; i++) change = step(grid, neighbour, column);
  int right = report(grid, cells, steps, change);
  free(now);
  free(next);
  MPI_Type_free(&column);
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return right ? 0 : 1;
}
