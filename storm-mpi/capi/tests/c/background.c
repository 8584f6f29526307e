/* Collectives in the background, compared with those that wait: several at once, completed in
 * any order. */
#include "check.h"

enum { COUNT = 5, LONG = 40000, AT_ONCE = 20 };

static MPI_Comm comm;
static int me, n;

/* One collective of each kind, begun together and waited for in reverse. Ranks begin at
 * different points. */
static void each_kind(int count) {
  enum { KINDS = 14 };
  MPI_Request requests[KINDS];
  size_t all_bytes = ((size_t)n * count + 1) * sizeof(int);
  int *mine = malloc(all_bytes), *counts = malloc(n * sizeof(int)), *displs = malloc(n * sizeof(int));
  int *got[KINDS], *expected[KINDS], root = n - 1;
  for (int i = 0; i < n * count; i++) mine[i] = me * 7919 + i * 31;
  for (int r = 0; r < n; r++) counts[r] = count, displs[r] = r * count;
  for (int k = 0; k < KINDS; k++) {
    got[k] = calloc(1, all_bytes), expected[k] = calloc(1, all_bytes);
    memcpy(got[k], mine, k == 0 ? all_bytes : 0);
    memcpy(expected[k], mine, k == 0 ? all_bytes : 0);
  }
#define IN (const void *)mine, count, MPI_INT
#define SPREAD mine, counts, displs, MPI_INT
#define BOTH(k, wait, start, ...)                                                            \
  do {                                                                                       \
    int *out = expected[k];                                                                  \
    OK(MPI_##wait(__VA_ARGS__, comm));                                                       \
    out = got[k];                                                                            \
    OK(MPI_I##start(__VA_ARGS__, comm, &requests[k]));                                       \
  } while (0)
  BOTH(0, Bcast, bcast, out, count, MPI_INT, root);
  BOTH(1, Gather, gather, IN, out, count, MPI_INT, root);
  BOTH(2, Gatherv, gatherv, IN, out, counts, displs, MPI_INT, root);
  BOTH(3, Scatter, scatter, mine, count, MPI_INT, out, count, MPI_INT, root);
  BOTH(4, Scatterv, scatterv, SPREAD, out, count, MPI_INT, root);
  BOTH(5, Allgather, allgather, IN, out, count, MPI_INT);
  BOTH(6, Allgatherv, allgatherv, IN, out, counts, displs, MPI_INT);
  BOTH(7, Alltoall, alltoall, mine, count, MPI_INT, out, count, MPI_INT);
  BOTH(8, Alltoallv, alltoallv, SPREAD, out, counts, displs, MPI_INT);
  BOTH(9, Reduce, reduce, (const void *)mine, out, count, MPI_INT, MPI_MAX, root);
  BOTH(10, Allreduce, allreduce, (const void *)mine, out, count, MPI_INT, MPI_SUM);
  BOTH(11, Scan, scan, (const void *)mine, out, count, MPI_INT, MPI_SUM);
  BOTH(12, Reduce_scatter, reduce_scatter, (const void *)mine, out, counts, MPI_INT, MPI_SUM);
  BOTH(13, Reduce_scatter_block, reduce_scatter_block, (const void *)mine, out, count, MPI_INT,
       MPI_MIN);
  for (int k = KINDS - 1; k >= 0; k--) {
    MPI_Status status;
    OK(MPI_Wait(&requests[k], &status));
    CHECK(requests[k] == MPI_REQUEST_NULL && status.MPI_SOURCE == MPI_ANY_SOURCE);
    if (memcmp(got[k], expected[k], all_bytes)) fprintf(stderr, "kind %d of %d\n", k, count);
    CHECK(!memcmp(got[k], expected[k], all_bytes));
    free(got[k]), free(expected[k]);
  }
  free(mine), free(counts), free(displs);
}

/* Many collectives of one kind, and one that waits among them, on the same communicator. */
static void at_once(void) {
  MPI_Request requests[2 * AT_ONCE], last;
  int sums[AT_ONCE], roots[AT_ONCE], done = 0, exscan = -1, before = 0;
  for (int i = 0; i < AT_ONCE; i++) {
    sums[i] = me + i, roots[i] = me == i % n ? 1000 + i : -1;
    OK(MPI_Iallreduce(MPI_IN_PLACE, &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[2 * i]));
    OK(MPI_Ibcast(&roots[i], 1, MPI_INT, i % n, comm, &requests[2 * i + 1]));
    if (i == AT_ONCE / 2) {
      int least = me + 1;
      OK(MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, comm));
      CHECK(least == 1);
    }
  }
  OK(MPI_Iexscan(&me, &exscan, 1, MPI_INT, MPI_SUM, comm, &last));
  while (!done) OK(MPI_Testall(2 * AT_ONCE, requests, &done, MPI_STATUSES_IGNORE));
  for (int i = 0; i < AT_ONCE; i++) {
    CHECK(sums[i] == n * (n - 1) / 2 + n * i);
    CHECK(roots[i] == 1000 + i);
  }
  OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
  for (int r = 0; r < me; r++) before += r;
  CHECK(exscan == (me ? before : -1));
}

/* A rank in the middle of the tree advances its collective, whatever it waits for meanwhile. */
static void while_waiting(void) {
  MPI_Comm other;
  OK(MPI_Comm_dup(comm, &other));
  for (int way = 0; way < 4; way++) {
    static int data[LONG];
    MPI_Request request;
    int token = me, right = (me + 1) % n, left = (me + n - 1) % n;
    data[LONG - 1] = me == 0 ? way + 1 : 0;
    OK(MPI_Ibcast(data, LONG, MPI_INT, 0, comm, &request));
    /* The last rank passes the token on only when it has the data. */
    if (me == n - 1) {
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      CHECK(data[LONG - 1] == way + 1);
    }
    MPI_Status status;
    if (way == 0) {
      OK(MPI_Barrier(other));
    } else if (n > 1) {
      int flag = 0;
      if (me == n - 1) OK(MPI_Send(&token, 1, MPI_INT, right, 5, comm));
      if (way == 1) OK(MPI_Probe(left, 5, comm, &status));
      while (way == 2 && !flag) OK(MPI_Iprobe(left, 5, comm, &flag, &status));
      OK(MPI_Recv(&token, 1, MPI_INT, left, 5, comm, &status));
      CHECK(token == left);
      token = me;
      if (me != n - 1) OK(MPI_Send(&token, 1, MPI_INT, right, 5, comm));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(data[LONG - 1] == way + 1);
  }
  OK(MPI_Comm_free(&other));
}

/* The communicator may be freed before its collective is done, and ibarrier tells who is there. */
static void freed(void) {
  MPI_Comm mine;
  MPI_Request requests[2];
  int sum = 1, index;
  OK(MPI_Comm_dup(comm, &mine));
  OK(MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, mine, &requests[0]));
  OK(MPI_Ibarrier(mine, &requests[1]));
  OK(MPI_Comm_free(&mine));
  OK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  CHECK(sum == n);
}

/* Rank r sends s a column of r + s rows in a matrix, which s receives as a row. */
static void mixed(void) {
  int total = 2 * n + 1, *counts = malloc(n * sizeof(int)), *ones = malloc(n * sizeof(int));
  int *from = malloc(n * sizeof(int)), *to = malloc(n * sizeof(int));
  int *matrix = malloc(n * total * sizeof(int)), *rows = malloc(n * total * sizeof(int));
  MPI_Datatype *columns = malloc(n * sizeof(MPI_Datatype)), *ints = malloc(n * sizeof(MPI_Datatype));
  for (int s = 0; s < n; s++) {
    OK(MPI_Type_vector(me + s, 1, n, MPI_INT, &columns[s]));
    OK(MPI_Type_commit(&columns[s]));
    ints[s] = MPI_INT, ones[s] = 1, counts[s] = me + s;
    from[s] = s * sizeof(int), to[s] = s * total * sizeof(int);
    for (int row = 0; row < total; row++) matrix[row * n + s] = me * 10000 + s * 100 + row;
  }
  for (int later = 0; later < 2; later++) {
    memset(rows, 0, n * total * sizeof(int));
    if (later) {
      MPI_Request request;
      OK(MPI_Ialltoallw(matrix, ones, from, columns, rows, counts, to, ints, comm, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      OK(MPI_Alltoallw(matrix, ones, from, columns, rows, counts, to, ints, comm));
    }
    for (int r = 0; r < n; r++)
      for (int i = 0; i < total; i++)
        CHECK(rows[r * total + i] == (i < me + r ? r * 10000 + me * 100 + i : 0));
  }
  for (int s = 0; s < n; s++) OK(MPI_Type_free(&columns[s]));
  free(counts), free(ones), free(from), free(to), free(matrix), free(rows);
  free(columns), free(ints);
}

/* Neighbours in a grid that is a ring in one dimension and has edges in the other. */
static void neighbours(void) {
  int dims[2] = {0, 0}, periods[2] = {1, 0}, counts[4] = {1, 1, 1, 1}, displs[4] = {3, 2, 1, 0};
  MPI_Aint places[4] = {0, 4, 8, 12};
  MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
  MPI_Comm grid;
  OK(MPI_Dims_create(n, 2, dims));
  OK(MPI_Cart_create(comm, 2, dims, periods, 0, &grid));
  int there[4];
  for (int d = 0; d < 2; d++) OK(MPI_Cart_shift(grid, d, 1, &there[2 * d], &there[2 * d + 1]));
  for (int later = 0; later < 2; later++) {
    int one[4] = {-1, -1, -1, -1}, back[4] = {-1, -1, -1, -1}, each[4] = {-1, -1, -1, -1};
    int spread[4] = {-1, -1, -1, -1}, typed[4] = {-1, -1, -1, -1}, out[4];
    for (int i = 0; i < 4; i++) out[i] = 10 * me + i;
    if (later) {
      MPI_Request r[5];
      OK(MPI_Ineighbor_allgather(&me, 1, MPI_INT, one, 1, MPI_INT, grid, &r[0]));
      OK(MPI_Ineighbor_allgatherv(&me, 1, MPI_INT, back, counts, displs, MPI_INT, grid, &r[1]));
      OK(MPI_Ineighbor_alltoall(out, 1, MPI_INT, each, 1, MPI_INT, grid, &r[2]));
      OK(MPI_Ineighbor_alltoallv(out, counts, displs, MPI_INT, spread, counts, displs, MPI_INT, grid,
                                 &r[3]));
      OK(MPI_Ineighbor_alltoallw(out, counts, places, types, typed, counts, places, types, grid,
                                 &r[4]));
      OK(MPI_Waitall(5, r, MPI_STATUSES_IGNORE));
    } else {
      OK(MPI_Neighbor_allgather(&me, 1, MPI_INT, one, 1, MPI_INT, grid));
      OK(MPI_Neighbor_allgatherv(&me, 1, MPI_INT, back, counts, displs, MPI_INT, grid));
      OK(MPI_Neighbor_alltoall(out, 1, MPI_INT, each, 1, MPI_INT, grid));
      OK(MPI_Neighbor_alltoallv(out, counts, displs, MPI_INT, spread, counts, displs, MPI_INT, grid));
      OK(MPI_Neighbor_alltoallw(out, counts, places, types, typed, counts, places, types, grid));
    }
    /* The places are addresses. Places of absent neighbours are unused. */
    int at[4] = {-1, -1, -1, -1};
    MPI_Aint from[4], to[4];
    for (int i = 0; i < 4; i++) {
      OK(MPI_Get_address(&out[i], &from[i]));
      OK(MPI_Get_address(&at[i], &to[i]));
      if (there[i] == MPI_PROC_NULL) from[i] = to[i] = 8;
    }
    OK(MPI_Neighbor_alltoallw(MPI_BOTTOM, counts, from, types, MPI_BOTTOM, counts, to, types, grid));
    for (int i = 0; i < 4; i++) {
      int beyond = there[i] == MPI_PROC_NULL;
      CHECK(one[i] == (beyond ? -1 : there[i]) && back[3 - i] == one[i]);
      /* A block from below was sent upwards. */
      CHECK(each[i] == (beyond ? -1 : 10 * there[i] + (i ^ 1)) && typed[i] == each[i]);
      CHECK(at[i] == each[i]);
      CHECK(spread[3 - i] == (beyond ? -1 : 10 * there[i] + 3 - (i ^ 1)));
    }
  }
  OK(MPI_Comm_free(&grid));
}

static void sum_of_pairs(void *in, void *inout, int *len, MPI_Datatype *type) {
  int bytes = 0, *left = in, *right = inout;
  OK(MPI_Type_size(*type, &bytes));
  CHECK(bytes == 2 * sizeof(int));
  for (int i = 0; i < 2 * *len; i++) right[i] += left[i];
}

/* The program's operation gets the type of its elements, although the handle is another type's
 * by then. */
static void types_freed(void) {
  int values[4] = {me, 1, 2 * me, 2}, sum = n * (n - 1) / 2;
  MPI_Datatype pair, other;
  MPI_Op op;
  MPI_Request request;
  OK(MPI_Op_create(sum_of_pairs, 1, &op));
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  OK(MPI_Type_commit(&pair));
  OK(MPI_Iallreduce(MPI_IN_PLACE, values, 2, pair, op, comm, &request));
  OK(MPI_Type_free(&pair));
  OK(MPI_Type_contiguous(3, MPI_DOUBLE, &other));
  OK(MPI_Op_free(&op));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK(values[0] == sum && values[1] == n && values[2] == 2 * sum && values[3] == 2 * n);
  OK(MPI_Type_free(&other));
}

static void mistakes(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  int value = 0;
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  CHECK(MPI_Ibcast(&value, 1, MPI_INT, n, comm, &request) == MPI_ERR_ROOT);
  CHECK(MPI_Iallreduce(&value, &value, -1, MPI_INT, MPI_SUM, comm, &request) == MPI_ERR_COUNT);
  CHECK(MPI_Neighbor_alltoall(&value, 1, MPI_INT, &value, 1, MPI_INT, comm) == MPI_ERR_TOPOLOGY);
  CHECK(request == MPI_REQUEST_NULL);
  /* Mistakes of one member alone: its next collective is the others' next one too. */
  if (me == n / 2) {
    int wrong = -1, three[3] = {0};
    CHECK(MPI_Ibcast(&value, 1, MPI_INT, -3, comm, &request) == MPI_ERR_ROOT);
    CHECK(MPI_Ireduce(&value, &value, 1, MPI_DOUBLE, MPI_BAND, 0, comm, &request) == MPI_ERR_OP);
    CHECK(MPI_Iallgather(three, 3, MPI_INT, &wrong, 1, MPI_DATATYPE_NULL, comm, &request) == MPI_ERR_TYPE);
  }
  for (int i = 0; i < 3; i++) {
    int root = i % n, told = me == root ? 70 + i : -1, sum = me;
    MPI_Request second;
    OK(MPI_Ibcast(&told, 1, MPI_INT, root, comm, &request));
    OK(MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm, &second));
    OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(told == 70 + i && sum == n * (n - 1) / 2);
  }
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  for (int reversed = 0; reversed < 2; reversed++) {
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, reversed ? -rank_ : rank_, &comm));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &n));
    each_kind(0);
    each_kind(COUNT);
    each_kind(LONG);
    at_once();
    while_waiting();
    freed();
    types_freed();
    mixed();
    neighbours();
    mistakes();
    OK(MPI_Comm_free(&comm));
  }
  return MPI_Finalize();
}
