/* Graphs of processes and the collectives of their neighbours. */
#include "check.h"
#include <limits.h>

static int me, n;

/* The data of the edge from a to b with that number between the two. */
static int value_of(int a, int b, int number) { return 10000 * a + 100 * b + number; }

/* Edges of member r: to r + 1, r + 1 again, r + 2 and itself, but none to members that 3
 * divides. */
static int ends_of(int r, int ends[4]) {
  if (r % 3 == 0 && n > 1) return 0;
  ends[0] = (r + 1) % n, ends[1] = (r + 1) % n, ends[2] = (r + 2) % n, ends[3] = r;
  return 4;
}

/* The edges backward: sources in the order of their rank, and the edges of each in order. */
static int starts_of(int r, int starts[]) {
  int count = 0, ends[4];
  for (int from = 0; from < n; from++)
    for (int i = 0, all = ends_of(from, ends); i < all; i++)
      if (ends[i] == r) starts[count++] = from;
  return count;
}

/* Number of times that a occurs among the first `count` entries. */
static int among(int a, const int *list, int count) {
  int times = 0;
  for (int i = 0; i < count; i++) times += list[i] == a;
  return times;
}

static void check_neighbours(MPI_Comm graph, int weighted_) {
  int ends[4], *starts = malloc(4 * n * sizeof(int)), in = -1, out = -1, weighted = -1, kind;
  int outs = ends_of(me, ends), ins = starts_of(me, starts);
  OK(MPI_Topo_test(graph, &kind));
  CHECK(kind == MPI_DIST_GRAPH);
  OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
  CHECK(in == ins && out == outs && !weighted == !weighted_);
  int *sources = malloc(4 * n * sizeof(int)), *weights = malloc(4 * n * sizeof(int));
  int destinations[5] = {-7, -7, -7, -7, -7}, towards[5] = {0};
  sources[in] = -7;
  if (weighted_)
    OK(MPI_Dist_graph_neighbors(graph, in + 1, sources, weights, out + 1, destinations, towards));
  else
    OK(MPI_Dist_graph_neighbors(graph, in + 1, sources, MPI_UNWEIGHTED, out + 1, destinations,
                                MPI_UNWEIGHTED));
  CHECK(sources[in] == -7 && destinations[out] == -7);
  CHECK(!memcmp(sources, starts, in * sizeof(int)) && !memcmp(destinations, ends, out * sizeof(int)));
  for (int i = 0; weighted_ && i < in; i++) CHECK(weights[i] == value_of(sources[i], me, 0));
  for (int i = 0; weighted_ && i < out; i++) CHECK(towards[i] == value_of(me, ends[i], 0));
  free(sources), free(weights), free(starts);
}

/* Each collective of neighbours, twice: waited for, in the background, and by persistent
 * requests. */
static void exchange(MPI_Comm graph) {
  int ends[4], *starts = malloc(4 * n * sizeof(int)), outs = ends_of(me, ends);
  int ins = starts_of(me, starts), data[4], out_counts[4], out_at[4];
  int *in_counts = malloc((ins + 1) * sizeof(int)), *in_at = malloc((ins + 1) * sizeof(int));
  MPI_Aint out_places[4], *in_places = malloc((ins + 1) * sizeof(MPI_Aint));
  MPI_Datatype out_types[4], *in_types = malloc((ins + 1) * sizeof(MPI_Datatype));
  for (int i = 0; i < outs; i++) {
    data[i] = value_of(me, ends[i], among(ends[i], ends, i));
    out_counts[i] = 1, out_at[i] = i, out_places[i] = i * sizeof(int), out_types[i] = MPI_INT;
  }
  /* The last block comes first. */
  for (int i = 0; i < ins; i++) {
    in_counts[i] = 1, in_at[i] = ins - 1 - i, in_types[i] = MPI_INT;
    in_places[i] = in_at[i] * sizeof(int);
  }
  int *got[5];
  for (int how = 0; how < 3; how++) {
    for (int k = 0; k < 5; k++) got[k] = memset(malloc((ins + 1) * sizeof(int)), -1, (ins + 1) * sizeof(int));
    if (how == 2) {
      MPI_Request r[5];
      OK(MPI_Neighbor_allgather_init(&me, 1, MPI_INT, got[0], 1, MPI_INT, graph, MPI_INFO_NULL, &r[0]));
      OK(MPI_Neighbor_allgatherv_init(&me, 1, MPI_INT, got[1], in_counts, in_at, MPI_INT, graph, MPI_INFO_NULL, &r[1]));
      OK(MPI_Neighbor_alltoall_init(data, 1, MPI_INT, got[2], 1, MPI_INT, graph, MPI_INFO_NULL, &r[2]));
      OK(MPI_Neighbor_alltoallv_init(data, out_counts, out_at, MPI_INT, got[3], in_counts, in_at, MPI_INT, graph,
                                     MPI_INFO_NULL, &r[3]));
      OK(MPI_Neighbor_alltoallw_init(data, out_counts, out_places, out_types, got[4], in_counts, in_places, in_types,
                                     graph, MPI_INFO_NULL, &r[4]));
      /* The program may free its arrays afterwards. */
      for (int i = 0; i < outs; i++)
        out_counts[i] = out_at[i] = 1 << 30, out_places[i] = 1 << 30, out_types[i] = MPI_DATATYPE_NULL;
      for (int i = 0; i < ins; i++)
        in_counts[i] = in_at[i] = 1 << 30, in_places[i] = 1 << 30, in_types[i] = MPI_DATATYPE_NULL;
      for (int lap = 0; lap < 2; lap++) {
        for (int k = 0; k < 5; k++) memset(got[k], -1, ins * sizeof(int));
        OK(MPI_Startall(5, r));
        OK(MPI_Waitall(5, r, MPI_STATUSES_IGNORE));
      }
      for (int k = 0; k < 5; k++) OK(MPI_Request_free(&r[k]));
    } else if (how == 1) {
      MPI_Request r[5];
      OK(MPI_Ineighbor_allgather(&me, 1, MPI_INT, got[0], 1, MPI_INT, graph, &r[0]));
      OK(MPI_Ineighbor_allgatherv(&me, 1, MPI_INT, got[1], in_counts, in_at, MPI_INT, graph, &r[1]));
      OK(MPI_Ineighbor_alltoall(data, 1, MPI_INT, got[2], 1, MPI_INT, graph, &r[2]));
      OK(MPI_Ineighbor_alltoallv(data, out_counts, out_at, MPI_INT, got[3], in_counts, in_at, MPI_INT,
                                 graph, &r[3]));
      OK(MPI_Ineighbor_alltoallw(data, out_counts, out_places, out_types, got[4], in_counts, in_places,
                                 in_types, graph, &r[4]));
      OK(MPI_Waitall(5, r, MPI_STATUSES_IGNORE));
    } else {
      OK(MPI_Neighbor_allgather(&me, 1, MPI_INT, got[0], 1, MPI_INT, graph));
      OK(MPI_Neighbor_allgatherv(&me, 1, MPI_INT, got[1], in_counts, in_at, MPI_INT, graph));
      OK(MPI_Neighbor_alltoall(data, 1, MPI_INT, got[2], 1, MPI_INT, graph));
      OK(MPI_Neighbor_alltoallv(data, out_counts, out_at, MPI_INT, got[3], in_counts, in_at, MPI_INT,
                                graph));
      OK(MPI_Neighbor_alltoallw(data, out_counts, out_places, out_types, got[4], in_counts, in_places,
                                in_types, graph));
    }
    for (int i = 0; i < ins; i++) {
      int expected = value_of(starts[i], me, among(starts[i], starts, i)), back = ins - 1 - i;
      CHECK(got[0][i] == starts[i] && got[1][back] == starts[i]);
      CHECK(got[2][i] == expected && got[3][back] == expected && got[4][back] == expected);
    }
    for (int k = 0; k < 5; k++) {
      CHECK(got[k][ins] == -1);
      free(got[k]);
    }
  }
  free(starts), free(in_counts), free(in_at), free(in_places), free(in_types);
}

/* Rank 0 names its successor's edges, and the others those of their successors. No rank names
 * its own. */
static MPI_Comm told_by_others(int weighted) {
  MPI_Comm graph;
  int about = (me + 1) % n, ends[4], weights[4], degree = ends_of(about, ends);
  for (int i = 0; i < degree; i++) weights[i] = value_of(about, ends[i], 0);
  OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &about, &degree, ends, weighted ? weights : MPI_UNWEIGHTED,
                           MPI_INFO_NULL, 0, &graph));
  return graph;
}

static void refused(void) {
  int one = 1, none[1] = {n}, in, out, weighted, class;
  MPI_Comm graph = MPI_COMM_NULL;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  int code = MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, none, MPI_UNWEIGHTED, 0, NULL,
                                            MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  OK(MPI_Error_class(code, &class));
  CHECK(class == MPI_ERR_RANK && graph == MPI_COMM_NULL);
  one = -1, none[0] = 0;
  code = MPI_Dist_graph_create(MPI_COMM_WORLD, 1, none, &one, none, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                               &graph);
  OK(MPI_Error_class(code, &class));
  CHECK(class == MPI_ERR_COUNT);
  /* More edges than there is memory for. If the system promises any memory, the first edge is
   * refused. */
  int about[1024] = {0}, degrees[1024];
  for (int i = 0; i < 1024; i++) degrees[i] = INT_MAX;
  none[0] = n;
  code = MPI_Dist_graph_create(MPI_COMM_WORLD, 1024, about, degrees, none, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  OK(MPI_Error_class(code, &class));
  CHECK((class == MPI_ERR_NO_MEM || class == MPI_ERR_RANK) && graph == MPI_COMM_NULL);
  code = MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &in, &out, &weighted);
  OK(MPI_Error_class(code, &class));
  CHECK(class == MPI_ERR_TOPOLOGY);
  code = MPI_Neighbor_allgather(&me, 1, MPI_INT, none, 1, MPI_INT, MPI_COMM_WORLD);
  OK(MPI_Error_class(code, &class));
  CHECK(class == MPI_ERR_TOPOLOGY);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
  MPI_Comm graph, copy;
  begin(&argc, &argv);
  me = rank_, n = size_;
  int ends[4], *starts = malloc(4 * n * sizeof(int)), *from = malloc(4 * n * sizeof(int)), to[4];
  int outs = ends_of(me, ends), ins = starts_of(me, starts);
  for (int i = 0; i < ins; i++) from[i] = value_of(starts[i], me, 0);
  for (int i = 0; i < outs; i++) to[i] = value_of(me, ends[i], 0);
  for (int weighted = 0; weighted < 2; weighted++) {
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ins, starts,
                                      !weighted ? MPI_UNWEIGHTED : ins ? from : MPI_WEIGHTS_EMPTY, outs, ends,
                                      !weighted ? MPI_UNWEIGHTED : outs ? to : MPI_WEIGHTS_EMPTY,
                                      MPI_INFO_NULL, 1, &graph));
    OK(MPI_Comm_dup(graph, &copy));
    check_neighbours(graph, weighted), exchange(graph);
    OK(MPI_Comm_free(&graph));
    check_neighbours(copy, weighted), exchange(copy);
    OK(MPI_Comm_free(&copy));
  }
  /* With edges named by others, the edges of each source stay in order; several sources come in
   * any order. */
  for (int weighted = 0; weighted < 2; weighted++) {
    graph = told_by_others(weighted);
    int in, out, is_weighted, *got = malloc(4 * n * sizeof(int)), *values = malloc(4 * n * sizeof(int));
    int towards[4], weights[4], *weights_in = malloc(4 * n * sizeof(int)), sent[4];
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &is_weighted));
    CHECK(in == ins && out == outs && !is_weighted == !weighted);
    OK(MPI_Dist_graph_neighbors(graph, in, got, weights_in, out, towards, weights));
    for (int i = 0; i < out; i++) {
      CHECK(towards[i] == ends[i] && (!weighted || weights[i] == to[i]));
      sent[i] = value_of(me, ends[i], among(ends[i], ends, i));
    }
    OK(MPI_Neighbor_alltoall(sent, 1, MPI_INT, values, 1, MPI_INT, graph));
    for (int i = 0; i < in; i++) {
      CHECK(among(got[i], got, in) == among(got[i], starts, ins));
      CHECK(!weighted || weights_in[i] == value_of(got[i], me, 0));
      CHECK(values[i] == value_of(got[i], me, among(got[i], got, i)));
    }
    free(got), free(values), free(weights_in);
    OK(MPI_Comm_free(&graph));
  }
  refused();
  free(starts), free(from);
  return MPI_Finalize();
}
