/* Communicators, groups, grids and attributes. */
#include "check.h"

static void duplicates(void) {
  MPI_Comm copy;
  int result, value = rank_, got = -1;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Request request;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
  CHECK(result == MPI_CONGRUENT);
  OK(MPI_Comm_compare(copy, copy, &result));
  CHECK(result == MPI_IDENT);
  OK(MPI_Comm_set_name(copy, "copy"));
  OK(MPI_Comm_get_name(copy, name, &result));
  CHECK(strcmp(name, "copy") == 0 && result == 4);
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &result));
  CHECK(strcmp(name, "MPI_COMM_WORLD") == 0);
  /* Messages with the same pair and tag: each communicator has its own. */
  int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_, other = 1000 + rank_;
  OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &request));
  OK(MPI_Send(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
  OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK(value == previous && got != previous);
  OK(MPI_Send(&other, 1, MPI_INT, next, 0, copy));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK(got == 1000 + previous);
  OK(MPI_Comm_free(&copy));
  CHECK(copy == MPI_COMM_NULL);
  /* Contexts are reused: more communicators are made than can exist at once. */
  for (int i = 0; i < 5000; i++) {
    OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    OK(MPI_Comm_free(&copy));
  }
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_disconnect(&copy));
  CHECK(copy == MPI_COMM_NULL);
}

static void splits(void) {
  MPI_Comm part, node;
  int me, n, members;
  OK(MPI_Comm_split(MPI_COMM_WORLD, rank_ % 3 == 2 ? MPI_UNDEFINED : rank_ % 3, -rank_, &part));
  if (rank_ % 3 == 2) {
    CHECK(part == MPI_COMM_NULL);
  } else {
    OK(MPI_Comm_rank(part, &me));
    OK(MPI_Comm_size(part, &n));
    CHECK(n == (size_ - rank_ % 3 + 2) / 3);
    CHECK(me == n - 1 - rank_ / 3);
    int first = rank_;
    OK(MPI_Bcast(&first, 1, MPI_INT, n - 1, part));
    CHECK(first == rank_ % 3);
    OK(MPI_Comm_free(&part));
  }
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  OK(MPI_Comm_size(node, &n));
  OK(MPI_Comm_rank(node, &me));
  OK(MPI_Allreduce(&n, &members, 1, MPI_INT, MPI_MIN, node));
  CHECK(members == n && me < n && n <= size_);
  OK(MPI_Comm_free(&node));
}

static void groups(void) {
  MPI_Group all, few, rest, both, none;
  MPI_Comm comm;
  int n, place, ranks[] = {size_ - 1, 0}, range[1][3] = {{0, size_ - 1, 2}};
  int there[2];
  if (size_ < 2) return;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
  OK(MPI_Group_incl(all, 2, ranks, &few));
  OK(MPI_Group_excl(all, 2, ranks, &rest));
  OK(MPI_Group_size(rest, &n));
  CHECK(n == size_ - 2);
  OK(MPI_Group_rank(few, &place));
  CHECK(place == (rank_ == size_ - 1 ? 0 : rank_ == 0 ? 1 : MPI_UNDEFINED));
  OK(MPI_Group_union(few, rest, &both));
  OK(MPI_Group_compare(both, all, &n));
  CHECK(n == MPI_SIMILAR);
  OK(MPI_Group_intersection(few, rest, &none));
  OK(MPI_Group_compare(none, MPI_GROUP_EMPTY, &n));
  CHECK(n == MPI_IDENT && none == MPI_GROUP_EMPTY);
  OK(MPI_Group_free(&none));
  CHECK(none == MPI_GROUP_NULL);
  OK(MPI_Group_translate_ranks(few, 2, (int[]){0, 1}, all, there));
  CHECK(there[0] == size_ - 1 && there[1] == 0);
  OK(MPI_Comm_create(MPI_COMM_WORLD, few, &comm));
  if (rank_ == 0 || rank_ == size_ - 1) {
    int root = rank_;
    OK(MPI_Bcast(&root, 1, MPI_INT, 0, comm));
    CHECK(root == size_ - 1);
    OK(MPI_Comm_free(&comm));
  } else {
    CHECK(comm == MPI_COMM_NULL);
  }
  MPI_Group evens;
  OK(MPI_Group_range_incl(all, 1, range, &evens));
  OK(MPI_Group_size(evens, &n));
  CHECK(n == (size_ + 1) / 2);
  OK(MPI_Group_free(&all));
  OK(MPI_Group_free(&few));
  OK(MPI_Group_free(&rest));
  OK(MPI_Group_free(&both));
  OK(MPI_Group_free(&evens));
  CHECK(evens == MPI_GROUP_NULL);
}

/* Ranks outside of the group do not call, or do something else meanwhile. */
static void parts_that_others_do_not_make(void) {
  MPI_Group all, odd, even;
  MPI_Comm part, again, copy;
  int n, sum, evens[1][3] = {{0, size_ - 1, 2}};
  OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
  OK(MPI_Group_range_incl(all, 1, evens, &even));
  OK(MPI_Group_range_excl(all, 1, evens, &odd));
  if (rank_ % 2 == 0) {
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, even, 7, &part));
    OK(MPI_Comm_create_group(part, even, 0, &again));
    OK(MPI_Comm_size(again, &n));
    CHECK(n == (size_ + 1) / 2);
    OK(MPI_Allreduce(&rank_, &sum, 1, MPI_INT, MPI_SUM, again));
    CHECK(sum == n * (n - 1));
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, odd, 8, &part));
    CHECK(part == MPI_COMM_NULL);
  } else if (rank_ == size_ - 1 || rank_ == size_ - 2) {
    /* The copy takes a context that the even ranks may take as well, because no rank is in both. */
    OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    OK(MPI_Comm_free(&copy));
  }
  /* Contexts are agreed on although only a few ranks have used some of them. */
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Allreduce(&rank_, &sum, 1, MPI_INT, MPI_SUM, copy));
  CHECK(sum == size_ * (size_ - 1) / 2);
  OK(MPI_Comm_free(&copy));
  OK(MPI_Group_free(&all));
  OK(MPI_Group_free(&even));
  OK(MPI_Group_free(&odd));
}

static void grids(void) {
  int dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], got[2], kept[2] = {0, 1}, n, rank, up, down;
  MPI_Comm grid, row;
  OK(MPI_Dims_create(size_, 2, dims));
  CHECK(dims[0] * dims[1] == size_ && dims[0] >= dims[1]);
  OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid));
  OK(MPI_Topo_test(grid, &n));
  CHECK(n == MPI_CART);
  OK(MPI_Cartdim_get(grid, &n));
  CHECK(n == 2);
  OK(MPI_Comm_rank(grid, &rank));
  OK(MPI_Cart_coords(grid, rank, 2, coords));
  CHECK(coords[0] == rank / dims[1] && coords[1] == rank % dims[1]);
  OK(MPI_Cart_get(grid, 2, dims, periods, got));
  CHECK(got[0] == coords[0] && got[1] == coords[1] && periods[0] && !periods[1]);
  OK(MPI_Cart_rank(grid, coords, &n));
  CHECK(n == rank);
  OK(MPI_Cart_shift(grid, 0, 1, &up, &down));
  CHECK(down == (coords[0] + 1) % dims[0] * dims[1] + coords[1]);
  OK(MPI_Cart_shift(grid, 1, 1, &up, &down));
  CHECK(down == (coords[1] + 1 < dims[1] ? rank + 1 : MPI_PROC_NULL));
  /* Over the edge is MPI_PROC_NULL, so a shift needs no special cases. */
  int value = rank, from = -5;
  OK(MPI_Sendrecv(&value, 1, MPI_INT, down, 0, &from, 1, MPI_INT, up, 0, grid, MPI_STATUS_IGNORE));
  CHECK(from == (coords[1] > 0 ? rank - 1 : -5));
  OK(MPI_Cart_sub(grid, kept, &row));
  OK(MPI_Comm_size(row, &n));
  CHECK(n == dims[1]);
  OK(MPI_Comm_rank(row, &n));
  CHECK(n == coords[1]);
  OK(MPI_Comm_free(&row));
  OK(MPI_Comm_free(&grid));
}

static int copies, deletions;

static int copied(MPI_Comm comm, int key, void *state, void *in, void *out, int *flag) {
  (void)comm, (void)key;
  copies++;
  *(void **)out = (char *)in + *(int *)state;
  *flag = 1;
  return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *state) {
  (void)comm, (void)key, (void)value, (void)state;
  deletions++;
  return MPI_SUCCESS;
}

static void attributes(void) {
  int *bound, flag, key, step = 3;
  void *value;
  char text[8];
  MPI_Comm comm, copy;
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag));
  CHECK(flag && *bound >= 32767);
  OK(MPI_Comm_create_keyval(copied, deleted, &key, &step));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_get_attr(comm, key, &value, &flag));
  CHECK(!flag);
  OK(MPI_Comm_set_attr(comm, key, text));
  OK(MPI_Comm_get_attr(comm, key, &value, &flag));
  CHECK(flag && value == text);
  OK(MPI_Comm_dup(comm, &copy));
  OK(MPI_Comm_get_attr(copy, key, &value, &flag));
  CHECK(flag && value == text + 3 && copies == 1);
  OK(MPI_Comm_delete_attr(comm, key));
  CHECK(deletions == 1);
  OK(MPI_Comm_free(&copy));
  CHECK(deletions == 2);
  OK(MPI_Comm_free(&comm));
  CHECK(deletions == 2);
  OK(MPI_Comm_free_keyval(&key));
  CHECK(key == MPI_KEYVAL_INVALID);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  duplicates();
  splits();
  groups();
  parts_that_others_do_not_make();
  grids();
  attributes();
  return MPI_Finalize();
}
