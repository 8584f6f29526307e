/* Duplicates of communicators that are made in the background. */
#include "check.h"

enum { MANY = 24 };

/* Each rank sends its number to the next in each communicator, with the same tag. Receives are
 * posted first. */
static void are_apart(MPI_Comm *comms, int n) {
  MPI_Request *requests = malloc(n * sizeof *requests);
  int *got = malloc(n * sizeof *got);
  for (int i = 0; i < n; i++) OK(MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], &requests[i]));
  for (int i = n - 1; i >= 0; i--) {
    int me, size, value;
    OK(MPI_Comm_rank(comms[i], &me));
    OK(MPI_Comm_size(comms[i], &size));
    value = 1000 * i + me;
    OK(MPI_Send(&value, 1, MPI_INT, (me + 1) % size, 0, comms[i]));
  }
  OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < n; i++) {
    int me, size, sum = 1;
    OK(MPI_Comm_rank(comms[i], &me));
    OK(MPI_Comm_size(comms[i], &size));
    CHECK(got[i] == 1000 * i + (me + size - 1) % size);
    OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comms[i]));
    CHECK(sum == size);
  }
  free(requests);
  free(got);
}

static void one(void) {
  MPI_Comm copy;
  MPI_Request requests[2];
  int result, sum = rank_;
  OK(MPI_Comm_idup(MPI_COMM_WORLD, &copy, &requests[0]));
  OK(MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
  OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
  OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  CHECK(sum == size_ * (size_ - 1) / 2 && requests[0] == MPI_REQUEST_NULL);
  OK(MPI_Comm_compare(copy, MPI_COMM_WORLD, &result));
  CHECK(result == MPI_CONGRUENT);
  are_apart(&copy, 1);
  OK(MPI_Comm_free(&copy));
  OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &copy, &requests[0]));
  OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  OK(MPI_Comm_free(&copy));
}

/* Duplicates of two communicators, which members begin in different orders, with others made at
 * once in between. */
static void in_any_order(void) {
  MPI_Comm parents[2], copies[2 * MANY + 1], all[2 * MANY + 1];
  MPI_Request requests[2 * MANY];
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[0]));
  OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank_, &parents[1]));
  for (int i = 0; i < 2 * MANY; i++) {
    /* Even ranks begin one of each in turn, odd ones first begin all of the second. */
    int which = rank_ % 2 ? i < MANY : i % 2;
    int number = rank_ % 2 ? i % MANY : i / 2;
    OK(MPI_Comm_idup(parents[which], &copies[which * MANY + number], &requests[which * MANY + number]));
  }
  OK(MPI_Comm_dup(parents[0], &copies[2 * MANY]));
  for (int i = 0; i < 2 * MANY; i++) {
    int at = rank_ % 3 ? i : 2 * MANY - 1 - i;
    OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
  }
  memcpy(all, copies, sizeof all);
  are_apart(all, 2 * MANY + 1);
  for (int i = 0; i <= 2 * MANY; i++) OK(MPI_Comm_free(&copies[i]));
  for (int i = 0; i < 2; i++) OK(MPI_Comm_free(&parents[i]));
}

/* One member begins the second only when the first is done, and another does the reverse. */
static void one_after_the_other(void) {
  MPI_Comm parents[2], copies[2];
  MPI_Request requests[2];
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[0]));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[1]));
  if (rank_ == 0) {
    OK(MPI_Comm_idup(parents[1], &copies[1], &requests[1]));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    OK(MPI_Comm_idup(parents[0], &copies[0], &requests[0]));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Comm_idup(parents[0], &copies[0], &requests[0]));
    OK(MPI_Comm_idup(parents[1], &copies[1], &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  }
  are_apart(copies, 2);
  for (int i = 0; i < 2; i++) {
    OK(MPI_Comm_free(&copies[i]));
    OK(MPI_Comm_free(&parents[i]));
  }
}

static int copies_made, refuses;

static int copied(MPI_Comm comm, int key, void *state, void *value, void *copy, int *flag) {
  (void)comm, (void)key, (void)state;
  copies_made++;
  *(void **)copy = (char *)value + 1;
  *flag = 1;
  return refuses ? MPI_ERR_INTERN : MPI_SUCCESS;
}

/* Attributes are copied as they are at the call. */
static void attributes(void) {
  MPI_Comm parent, copy;
  MPI_Request request;
  MPI_Errhandler handler;
  char text[2], other[2], *value;
  int key, late, flag;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
  OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
  OK(MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL));
  OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &late, NULL));
  OK(MPI_Comm_set_attr(parent, key, text));
  OK(MPI_Comm_idup(parent, &copy, &request));
  CHECK(copies_made == 1);
  OK(MPI_Comm_set_attr(parent, key, other));
  OK(MPI_Comm_set_attr(parent, late, other));
  OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  CHECK(copies_made == 1);
  OK(MPI_Comm_get_attr(copy, key, &value, &flag));
  CHECK(flag && value == text + 1);
  OK(MPI_Comm_get_attr(copy, late, &value, &flag));
  CHECK(!flag);
  OK(MPI_Comm_get_errhandler(copy, &handler));
  CHECK(handler == MPI_ERRORS_RETURN);
  OK(MPI_Comm_free(&copy));
  /* One member's function refuses. The member has no duplicate, and the others do not wait for
   * it. */
  OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
  for (int i = 0; i < 100; i++) {
    refuses = rank_ == size_ - 1;
    int said = MPI_Comm_idup(parent, &copy, &request);
    if (said == MPI_SUCCESS) said = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(said == (refuses ? MPI_ERR_INTERN : MPI_SUCCESS) && (copy == MPI_COMM_NULL) == refuses);
    if (!refuses) OK(MPI_Comm_free(&copy));
  }
  refuses = 0;
  OK(MPI_Comm_free_keyval(&key));
  OK(MPI_Comm_free_keyval(&late));
  OK(MPI_Comm_free(&parent));
}

static void grids_and_groups(void) {
  MPI_Comm grid, copy, half, inter;
  MPI_Request request;
  int period = 1, kind, n, first = size_ / 2, low = rank_ < size_ / 2;
  OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size_, &period, 0, &grid));
  OK(MPI_Comm_idup(grid, &copy, &request));
  OK(MPI_Comm_free(&grid));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Topo_test(copy, &kind));
  CHECK(kind == MPI_CART);
  OK(MPI_Comm_free(&copy));
  if (size_ == 1) return;
  OK(MPI_Comm_split(MPI_COMM_WORLD, low, rank_, &half));
  OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? first : 0, 7, &inter));
  OK(MPI_Comm_idup(inter, &copy, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Comm_remote_size(copy, &n));
  CHECK(n == (low ? size_ - first : first));
  int sum = 1;
  OK(MPI_Allreduce(&n, &sum, 1, MPI_INT, MPI_SUM, copy));
  CHECK(sum == first * (size_ - first));
  OK(MPI_Comm_free(&copy));
  OK(MPI_Comm_free(&inter));
  OK(MPI_Comm_free(&half));
}

/* More duplicates than there is room for: the first succeed, and then an error follows. */
static void all_of_them(void) {
  enum { MOST = 5000 };
  static MPI_Comm copies[MOST];
  MPI_Request request;
  int made = 0, said = MPI_SUCCESS;
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  while (made < MOST && said == MPI_SUCCESS) {
    said = MPI_Comm_idup(MPI_COMM_SELF, &copies[made], &request);
    if (said == MPI_SUCCESS) said = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (said == MPI_SUCCESS) made++;
  }
  CHECK(said == MPI_ERR_OTHER && made > 4000);
  OK(MPI_Comm_dup(MPI_COMM_SELF, &copies[made]));
  for (int i = 0; i <= made; i++) OK(MPI_Comm_free(&copies[i]));
  for (int i = 0; i < MOST; i++) {
    OK(MPI_Comm_idup(MPI_COMM_SELF, &copies[0], &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&copies[0]));
  }
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  one();
  in_any_order();
  one_after_the_other();
  attributes();
  grids_and_groups();
  all_of_them();
  return MPI_Finalize();
}
