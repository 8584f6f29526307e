/* Graphs of MPI-1, parts of distributed arrays, handles as numbers, long counts, and a send and
 * a receive in one call. */
#include "check.h"

static int me, n;

/* Member 0 in the middle, and all others around it. */
static void star(void) {
  int *index = malloc(n * sizeof(int)), *edges = malloc((2 * n + 1) * sizeof(int)), *got = malloc((2 * n + 1) * sizeof(int));
  int nodes, count, kind, rank, *round = calloc(2 * n + 1, sizeof(int));
  MPI_Comm graph, part;
  for (int i = 0; i < n - 1; i++) edges[i] = i + 1, edges[n - 1 + i] = 0;
  for (int i = 0; i < n; i++) index[i] = n - 1 + i;
  OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 1, &graph));
  OK(MPI_Topo_test(graph, &kind));
  CHECK(kind == MPI_GRAPH);
  OK(MPI_Graphdims_get(graph, &nodes, &count));
  CHECK(nodes == n && count == 2 * (n - 1));
  OK(MPI_Graph_get(graph, n, count, got, round));
  CHECK(!memcmp(got, index, n * sizeof(int)));
  OK(MPI_Comm_rank(graph, &rank));
  OK(MPI_Graph_neighbors_count(graph, 0, &count));
  CHECK(count == n - 1);
  OK(MPI_Graph_neighbors_count(graph, rank, &count));
  OK(MPI_Graph_neighbors(graph, rank, count, got));
  for (int i = 0; i < count; i++) CHECK(got[i] == (rank == 0 ? i + 1 : 0));
  if (n > 1) {
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, round, 1, MPI_INT, graph));
    for (int i = 0; i < count; i++) CHECK(round[i] == got[i]);
  }
  OK(MPI_Comm_free(&graph));
  OK(MPI_Graph_map(MPI_COMM_WORLD, n, index, edges, &rank));
  CHECK(rank >= 0 && rank < n);
  int one = 0;
  OK(MPI_Graph_create(MPI_COMM_WORLD, 1, &one, edges, 0, &part));
  CHECK((part == MPI_COMM_NULL) == (me != 0));
  if (part != MPI_COMM_NULL) OK(MPI_Comm_free(&part));
  int dims[1] = {n}, periods[1] = {0};
  OK(MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &rank));
  CHECK(rank == me);
  free(index), free(edges), free(got), free(round);
}

/* Each member's part of an array, in either order: the parts of all are the array. */
static void arrays(void) {
  enum { ROWS = 12, COLUMNS = 7 };
  int lengths[2] = {ROWS, COLUMNS}, grid[2] = {0, 0}, kinds[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  int arguments[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, whole[ROWS * COLUMNS], marks[ROWS * COLUMNS], bytes;
  MPI_Aint lower, extent;
  OK(MPI_Dims_create(n, 2, grid));
  for (int order = 0; order < 2; order++) {
    MPI_Datatype part;
    OK(MPI_Type_create_darray(n, me, 2, lengths, kinds, arguments, grid, order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT,
                              &part));
    OK(MPI_Type_commit(&part));
    OK(MPI_Type_get_extent(part, &lower, &extent));
    CHECK(lower == 0 && extent == (MPI_Aint)sizeof(whole));
    OK(MPI_Type_size(part, &bytes));
    /* The part is packed in the order of the array, and put into place. */
    int position = 0, mine[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) whole[i] = i + 1, marks[i] = 0;
    OK(MPI_Pack(whole, 1, part, mine, sizeof(mine), &position, MPI_COMM_WORLD));
    CHECK(position == bytes);
    position = 0;
    OK(MPI_Unpack(mine, bytes, &position, marks, 1, part, MPI_COMM_WORLD));
    for (int row = 0; row < ROWS; row++) {
      for (int column = 0; column < COLUMNS; column++) {
        int at = order ? row * COLUMNS + column : column * ROWS + row;
        int width = (COLUMNS + grid[1] - 1) / grid[1];
        int owner = row / 2 % grid[0] * grid[1] + column / width;
        CHECK(marks[at] == (owner == me ? at + 1 : 0));
      }
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, marks, ROWS * COLUMNS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(!memcmp(marks, whole, sizeof(whole)));
    OK(MPI_Type_free(&part));
  }
}

static void handles(void) {
  MPI_Comm copy;
  int size;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  MPI_Fint number = MPI_Comm_c2f(copy);
  OK(MPI_Comm_size(MPI_Comm_f2c(number), &size));
  CHECK(size == n && MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
  CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM && MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
  OK(MPI_Comm_free(&copy));
}

static void counts(void) {
  MPI_Datatype huge, two;
  MPI_Count size, lower, extent, count;
  MPI_Status status;
  int pair[4] = {1, 2, 3, 4}, got[4];
  OK(MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &huge));
  OK(MPI_Type_size_x(huge, &size));
  CHECK(size == (MPI_Count)8 << 30);
  OK(MPI_Type_get_extent_x(huge, &lower, &extent));
  CHECK(lower == 0 && extent == size);
  OK(MPI_Type_get_true_extent_x(huge, &lower, &extent));
  CHECK(lower == 0 && extent == size);
  OK(MPI_Type_free(&huge));
  OK(MPI_Type_contiguous(2, MPI_INT, &two));
  OK(MPI_Type_commit(&two));
  OK(MPI_Sendrecv(pair, 3, MPI_INT, me, 1, got, 2, two, me, 1, MPI_COMM_WORLD, &status));
  OK(MPI_Get_elements_x(&status, two, &count));
  CHECK(count == 3);
  OK(MPI_Type_free(&two));
}

#ifdef STORM_MPI /* Names of MPI-4. */
static void in_one(void) {
  enum { LONG = 100000 };
  int left = (me + n - 1) % n, right = (me + 1) % n, token = me, count;
  int *out = malloc(LONG * sizeof(int)), *in = calloc(LONG, sizeof(int));
  MPI_Request requests[3];
  MPI_Status statuses[3];
  for (int i = 0; i < LONG; i++) out[i] = me + i;
  OK(MPI_Isendrecv(out, LONG, MPI_INT, right, 1, in, LONG, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
  OK(MPI_Isendrecv_replace(&token, 1, MPI_INT, right, 2, left, 2, MPI_COMM_WORLD, &requests[1]));
  OK(MPI_Isendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 3, in, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[2]));
  OK(MPI_Waitall(3, requests, statuses));
  OK(MPI_Get_count(&statuses[0], MPI_INT, &count));
  CHECK(statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == 1 && count == LONG);
  CHECK(statuses[1].MPI_SOURCE == left && statuses[2].MPI_SOURCE == MPI_PROC_NULL && token == left);
  for (int i = 0; i < LONG; i++) CHECK(in[i] == left + i);
  free(out), free(in);
}
#endif

int main(int argc, char **argv) {
  begin(&argc, &argv);
  me = rank_, n = size_;
  star();
  arrays();
  handles();
  counts();
#ifdef STORM_MPI
  in_one();
#endif
  return MPI_Finalize();
}
