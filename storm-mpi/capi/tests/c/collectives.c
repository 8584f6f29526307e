/* Collectives compared with their definitions, on the world, a part of it, and in reverse order. */
#include "check.h"
#include <complex.h>
#include <math.h>
#include <stdbool.h>

static MPI_Comm comm;
static int me, n;

static void moving(int count) {
  int *mine = malloc((count + 1) * sizeof(int)), *all = malloc((n * count + 1) * sizeof(int));
  int *out = malloc((n * count + 1) * sizeof(int));
  int root = n / 2;
  for (int i = 0; i < count; i++) mine[i] = me * 10000 + i;
  if (me == root) memcpy(all, mine, count * sizeof(int));
  OK(MPI_Bcast(all, count, MPI_INT, root, comm));
  for (int i = 0; i < count; i++) CHECK(all[i] == root * 10000 + i);
#define ALL_ARE_THERE()                                                                      \
  for (int r = 0; r < n; r++)                                                                \
    for (int i = 0; i < count; i++) CHECK(all[r * count + i] == r * 10000 + i)
  OK(MPI_Gather(mine, count, MPI_INT, all, count, MPI_INT, root, comm));
  if (me == root) ALL_ARE_THERE();
  memset(all, 0, n * count * sizeof(int));
  memcpy(all + me * count, mine, count * sizeof(int));
  if (me == root)
    OK(MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, root, comm));
  else
    OK(MPI_Gather(mine, count, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, comm));
  if (me == root) ALL_ARE_THERE();
  memset(mine, 0, count * sizeof(int));
  if (me == root)
    OK(MPI_Scatter(all, count, MPI_INT, MPI_IN_PLACE, count, MPI_INT, root, comm));
  else
    OK(MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, mine, count, MPI_INT, root, comm));
  for (int i = 0; i < count; i++) CHECK(mine[i] == (me == root ? 0 : me * 10000 + i));
  OK(MPI_Scatter(all, count, MPI_INT, mine, count, MPI_INT, root, comm));
  for (int i = 0; i < count; i++) CHECK(mine[i] == me * 10000 + i);
  memset(all, 0, n * count * sizeof(int));
  OK(MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, comm));
  ALL_ARE_THERE();
  memset(all, 0, n * count * sizeof(int));
  memcpy(all + me * count, mine, count * sizeof(int));
  OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comm));
  ALL_ARE_THERE();
  for (int r = 0; r < n; r++)
    for (int i = 0; i < count; i++) out[r * count + i] = me * 10000 + r * 100 + i % 100;
  OK(MPI_Alltoall(out, count, MPI_INT, all, count, MPI_INT, comm));
  OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, MPI_INT, comm));
  for (int r = 0; r < n; r++)
    for (int i = 0; i < count; i++) {
      CHECK(all[r * count + i] == r * 10000 + me * 100 + i % 100);
      CHECK(out[r * count + i] == all[r * count + i]);
    }
  free(mine); free(all); free(out);
}

/* Rank r has r + 1 elements; blocks lie in reverse order with gaps between them. */
static void vectors(void) {
  int *counts = malloc(n * sizeof(int)), *displs = malloc(n * sizeof(int)), total = 0;
  for (int r = n - 1; r >= 0; r--) {
    counts[r] = r + 1;
    displs[r] = total;
    total += counts[r] + 2;
  }
  long *all = malloc(total * sizeof(long)), *mine = malloc(n * sizeof(long));
  for (int i = 0; i <= me; i++) mine[i] = me * 100 + i;
#define BLOCKS_ARE_THERE()                                                                   \
  for (int r = 0; r < n; r++) {                                                              \
    for (int i = 0; i <= r; i++) CHECK(all[displs[r] + i] == r * 100 + i);                   \
    CHECK(all[displs[r] + counts[r]] == -1 && all[displs[r] + counts[r] + 1] == -1);         \
  }
  for (int i = 0; i < total; i++) all[i] = -1;
  OK(MPI_Gatherv(mine, me + 1, MPI_LONG, all, counts, displs, MPI_LONG, n - 1, comm));
  if (me == n - 1) BLOCKS_ARE_THERE();
  memset(mine, 0, n * sizeof(long));
  OK(MPI_Scatterv(all, counts, displs, MPI_LONG, mine, me + 1, MPI_LONG, n - 1, comm));
  for (int i = 0; i <= me; i++) CHECK(mine[i] == me * 100 + i);
  for (int i = 0; i < total; i++) all[i] = -1;
  OK(MPI_Allgatherv(mine, me + 1, MPI_LONG, all, counts, displs, MPI_LONG, comm));
  BLOCKS_ARE_THERE();
  for (int i = 0; i < total; i++) all[i] = -1;
  memcpy(all + displs[me], mine, (me + 1) * sizeof(long));
  OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, displs, MPI_LONG, comm));
  BLOCKS_ARE_THERE();
  /* Rank s sends r + 1 elements to rank r from one buffer, and receives s + 1 elements from each
   * rank. */
  int *rcounts = malloc(n * sizeof(int)), *rdispls = malloc(n * sizeof(int));
  for (int r = 0; r < n; r++) {
    rcounts[r] = me + 1;
    rdispls[r] = r * (me + 1);
    for (int i = 0; i < counts[r]; i++) all[displs[r] + i] = me * 1000 + r * 10 + i;
  }
  long *in = malloc(n * (me + 1) * sizeof(long));
  OK(MPI_Alltoallv(all, counts, displs, MPI_LONG, in, rcounts, rdispls, MPI_LONG, comm));
  for (int s = 0; s < n; s++)
    for (int i = 0; i <= me; i++) CHECK(in[s * (me + 1) + i] == s * 1000 + me * 10 + i);
  free(counts); free(displs); free(all); free(mine); free(rcounts); free(rdispls); free(in);
}

static void reducing(int count) {
  int root = n - 1;
  double *mine = malloc((count + 1) * sizeof(double)), *all = malloc((count + 1) * sizeof(double));
  for (int i = 0; i < count; i++) {
    mine[i] = me + i;
    all[i] = -1;
  }
  double ranks = n * (n - 1) / 2;
  OK(MPI_Reduce(mine, all, count, MPI_DOUBLE, MPI_SUM, root, comm));
  for (int i = 0; i < count; i++) CHECK(all[i] == (me == root ? ranks + (double)n * i : -1));
  OK(MPI_Allreduce(mine, all, count, MPI_DOUBLE, MPI_MAX, comm));
  for (int i = 0; i < count; i++) CHECK(all[i] == n - 1 + i);
  memcpy(all, mine, count * sizeof(double));
  OK(MPI_Allreduce(MPI_IN_PLACE, all, count, MPI_DOUBLE, MPI_MIN, comm));
  for (int i = 0; i < count; i++) CHECK(all[i] == i);
  memcpy(all, mine, count * sizeof(double));
  if (me == root)
    OK(MPI_Reduce(MPI_IN_PLACE, all, count, MPI_DOUBLE, MPI_SUM, root, comm));
  else
    OK(MPI_Reduce(mine, NULL, count, MPI_DOUBLE, MPI_SUM, root, comm));
  for (int i = 0; i < count; i++) CHECK(all[i] == (me == root ? ranks + (double)n * i : me + i));
  OK(MPI_Scan(mine, all, count, MPI_DOUBLE, MPI_SUM, comm));
  for (int i = 0; i < count; i++) CHECK(all[i] == me * (me + 1) / 2 + (double)(me + 1) * i);
  OK(MPI_Exscan(mine, all, count, MPI_DOUBLE, MPI_SUM, comm));
  for (int i = 0; i < count && me > 0; i++) CHECK(all[i] == me * (me - 1) / 2 + (double)me * i);
  free(mine); free(all);
}

static void scattered_sums(void) {
  int *counts = malloc(n * sizeof(int)), *mine = malloc(n * n * sizeof(int)), total = 0;
  int *part = malloc((n + 1) * sizeof(int)), before = 0;
  for (int r = 0; r < n; r++) {
    counts[r] = r % 3;
    if (r < me) before += counts[r];
    total += counts[r];
  }
  for (int i = 0; i < n * n; i++) mine[i] = me + i;
  OK(MPI_Reduce_scatter(mine, part, counts, MPI_INT, MPI_SUM, comm));
  for (int i = 0; i < counts[me]; i++) CHECK(part[i] == n * (n - 1) / 2 + n * (before + i));
  OK(MPI_Reduce_scatter_block(mine, part, 1, MPI_INT, MPI_SUM, comm));
  CHECK(part[0] == n * (n - 1) / 2 + n * me);
  free(counts); free(mine); free(part);
}

#define REDUCE(type, mpi_type, op, mine, expected)                                           \
  do {                                                                                       \
    type in_ = (mine), out_;                                                                 \
    OK(MPI_Allreduce(&in_, &out_, 1, mpi_type, op, comm));                                   \
    CHECK(out_ == (type)(expected));                                                         \
  } while (0)

static void operations(void) {
  long factorial = 1;
  int parity = 0, odd = 0;
  unsigned bits = 0;
  for (int r = 0; r < n; r++) {
    factorial *= r % 5 + 1;
    bits |= 1u << r % 30;
    parity ^= r;
    odd ^= r % 2;
  }
  REDUCE(long, MPI_LONG, MPI_PROD, me % 5 + 1, factorial);
  REDUCE(long long, MPI_LONG_LONG, MPI_SUM, me, (long long)n * (n - 1) / 2);
  REDUCE(unsigned, MPI_UNSIGNED, MPI_BOR, 1u << me % 30, bits);
  REDUCE(int, MPI_INT, MPI_BXOR, me, parity);
  REDUCE(short, MPI_SHORT, MPI_BAND, (short)(me | 64), n == 1 ? 64 | me : 64 | 0);
  REDUCE(int, MPI_INT, MPI_LAND, me + 1, 1);
  REDUCE(int, MPI_INT, MPI_LAND, me, 0);
  REDUCE(int, MPI_INT, MPI_LOR, me == n - 1, 1);
  REDUCE(int, MPI_INT, MPI_LXOR, me % 2, odd);
  REDUCE(unsigned char, MPI_BYTE, MPI_BOR, me == 0 ? 128 : 1, n == 1 ? 128 : 129);
  REDUCE(bool, MPI_C_BOOL, MPI_LOR, me == 0, true);
  REDUCE(float, MPI_FLOAT, MPI_SUM, 0.5f, 0.5f * n);
  REDUCE(long double, MPI_LONG_DOUBLE, MPI_SUM, 0.25L + me, 0.25L * n + n * (n - 1) / 2);
  REDUCE(long double, MPI_LONG_DOUBLE, MPI_PROD, 2.0L, powl(2.0L, n));
  REDUCE(long double, MPI_LONG_DOUBLE, MPI_MAX, me - 3.5L, n - 4.5L);
  REDUCE(long double, MPI_LONG_DOUBLE, MPI_MIN, me - 3.5L, -3.5L);
  REDUCE(double complex, MPI_C_DOUBLE_COMPLEX, MPI_SUM, me + 2.0 * I, n * (n - 1) / 2 + 2.0 * n * I);
  double complex turned = 1;
  for (int r = 0; r < n; r++) turned *= I;
  REDUCE(double complex, MPI_C_DOUBLE_COMPLEX, MPI_PROD, I, turned);
  REDUCE(long double complex, MPI_C_LONG_DOUBLE_COMPLEX, MPI_SUM, me + 2.0L * I,
         n * (n - 1) / 2 + 2.0L * n * I);
  REDUCE(long double complex, MPI_C_LONG_DOUBLE_COMPLEX, MPI_PROD, I, turned);
  REDUCE(int8_t, MPI_INT8_T, MPI_MAX, me % 100, (n - 1) % 100);
  REDUCE(uint64_t, MPI_UINT64_T, MPI_SUM, UINT64_MAX, (uint64_t)0 - n);
  struct { double value; int index; } mine = {-(me % 3), me}, least;
  OK(MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm));
  CHECK(least.value == -(n < 3 ? n - 1 : 2) && least.index == (n < 3 ? n - 1 : 2));
  struct { int value, index; } pair = {me % 3, me}, most;
  OK(MPI_Allreduce(&pair, &most, 1, MPI_2INT, MPI_MAXLOC, comm));
  CHECK(most.value == (n < 3 ? n - 1 : 2) && most.index == (n < 3 ? n - 1 : 2));
  struct { long double value; int index; } wide = {me % 3 - 0.5L, me}, widest;
  OK(MPI_Allreduce(&wide, &widest, 1, MPI_LONG_DOUBLE_INT, MPI_MAXLOC, comm));
  CHECK(widest.value == (n < 3 ? n - 1 : 2) - 0.5L && widest.index == (n < 3 ? n - 1 : 2));
  OK(MPI_Allreduce(&wide, &widest, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC, comm));
  CHECK(widest.value == -0.5L && widest.index == 0);
  /* Pairs of Fortran: the index has the type of the value. */
  double two[2] = {me % 3 + 0.5, me + 0.25}, best[2];
  OK(MPI_Allreduce(two, best, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, comm));
  CHECK(best[0] == (n < 3 ? n - 1 : 2) + 0.5 && best[1] == (n < 3 ? n - 1 : 2) + 0.25);
  float real[2] = {me % 3 - 2, me}, low[2];
  OK(MPI_Allreduce(real, low, 1, MPI_2REAL, MPI_MINLOC, comm));
  CHECK(low[0] == -2 && low[1] == 0);
  int left = 5, right = 7;
  OK(MPI_Reduce_local(&left, &right, 1, MPI_INT, MPI_SUM));
  CHECK(left == 5 && right == 12);
}

/* Affine maps x -> a x + b under composition: associative, not commutative. */
typedef struct { long a, b; } Affine;

static void compose(void *in, void *inout, int *length, MPI_Datatype *type) {
  (void)type;
  Affine *left = in, *right = inout;
  for (int i = 0; i < *length; i++) {
    Affine l = left[i], r = right[i];
    right[i].a = l.a * r.a % 1000003;
    right[i].b = (l.a * r.b + l.b) % 1000003;
  }
}

static void own_operations(void) {
  MPI_Datatype type;
  MPI_Op op;
  int commutes;
  OK(MPI_Type_contiguous(2, MPI_LONG, &type));
  OK(MPI_Type_commit(&type));
  OK(MPI_Op_create(compose, 0, &op));
  OK(MPI_Op_commutative(op, &commutes));
  CHECK(!commutes);
  OK(MPI_Op_commutative(MPI_SUM, &commutes));
  CHECK(commutes);
  Affine mine[3], all[3], one = {1, 0};
  for (int i = 0; i < 3; i++) mine[i] = (Affine){me + 2 + i, 3 * me + 1};
  Affine expected[3] = {one, one, one}, prefix[3] = {one, one, one};
  for (int r = 0; r < n; r++)
    for (int i = 0; i < 3; i++) {
      Affine left = expected[i], right = {r + 2 + i, 3 * r + 1};
      int count = 1;
      compose(&left, &right, &count, NULL);
      expected[i] = right;
      if (r == me) prefix[i] = right;
    }
  OK(MPI_Allreduce(mine, all, 3, type, op, comm));
  CHECK(memcmp(all, expected, sizeof all) == 0);
  OK(MPI_Reduce(mine, all, 3, type, op, n - 1, comm));
  CHECK(me != n - 1 || memcmp(all, expected, sizeof all) == 0);
  OK(MPI_Scan(mine, all, 3, type, op, comm));
  CHECK(memcmp(all, prefix, sizeof all) == 0);
  OK(MPI_Op_free(&op));
  CHECK(op == MPI_OP_NULL);
  OK(MPI_Type_free(&type));
}

/* The bits of a sum must be the same in every run and on every rank, so they are printed. */
static void bits_of_a_sum(void) {
  double mine = 1.0 / (me + 3), all;
  OK(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm));
  unsigned long long bits;
  memcpy(&bits, &all, sizeof bits);
  printf("%d %016llx\n", n, bits);
}

static void all_of_it(MPI_Comm on) {
  comm = on;
  OK(MPI_Comm_rank(comm, &me));
  OK(MPI_Comm_size(comm, &n));
  OK(MPI_Barrier(comm));
  static const int counts[] = {0, 1, 10, 5000};
  for (int i = 0; i < 4; i++) {
    moving(counts[i]);
    reducing(counts[i]);
  }
  vectors();
  scattered_sums();
  operations();
  own_operations();
  bits_of_a_sum();
}

int main(int argc, char **argv) {
  MPI_Comm parity, reversed;
  begin(&argc, &argv);
  all_of_it(MPI_COMM_WORLD);
  OK(MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, 0, &parity));
  all_of_it(parity);
  OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_, &reversed));
  all_of_it(reversed);
  all_of_it(MPI_COMM_SELF);
  OK(MPI_Comm_free(&parity));
  OK(MPI_Comm_free(&reversed));
  return MPI_Finalize();
}
