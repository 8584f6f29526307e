/* Inter-communicators: two groups that send to each other. */
#include "check.h"

/* An inter-communicator of the ranks below `first` and the others. The leaders are the last of
 * the lower ranks and the first of the others. */
static MPI_Comm halves(int first) {
  MPI_Comm half, inter;
  int n, low = rank_ < first;
  OK(MPI_Comm_split(MPI_COMM_WORLD, low, rank_, &half));
  OK(MPI_Comm_size(half, &n));
  OK(MPI_Intercomm_create(half, low ? n - 1 : 0, MPI_COMM_WORLD, low ? first : first - 1, 7, &inter));
  OK(MPI_Comm_free(&half));
  return inter;
}

static int members_of(MPI_Group group, int first, int n) {
  MPI_Group all;
  int size, there;
  OK(MPI_Group_size(group, &size));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
  for (int i = 0; i < size; i++) {
    OK(MPI_Group_translate_ranks(group, 1, &i, all, &there));
    if (there != first + i) return 0;
  }
  OK(MPI_Group_free(&all));
  return size == n;
}

static void who_is_there(MPI_Comm inter, int first) {
  MPI_Group local, remote;
  int flag, n, me, low = rank_ < first;
  OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
  CHECK(flag == 0);
  OK(MPI_Comm_test_inter(inter, &flag));
  CHECK(flag == 1);
  OK(MPI_Comm_size(inter, &n));
  CHECK(n == (low ? first : size_ - first));
  OK(MPI_Comm_rank(inter, &me));
  CHECK(me == (low ? rank_ : rank_ - first));
  OK(MPI_Comm_remote_size(inter, &n));
  CHECK(n == (low ? size_ - first : first));
  OK(MPI_Comm_group(inter, &local));
  OK(MPI_Comm_remote_group(inter, &remote));
  CHECK(members_of(low ? local : remote, 0, first));
  CHECK(members_of(low ? remote : local, first, size_ - first));
  OK(MPI_Group_free(&local));
  OK(MPI_Group_free(&remote));
}

/* Each rank sends to all ranks of the other group, in several ways. */
static void messages(MPI_Comm inter) {
  MPI_Request *requests, again[2];
  MPI_Status status;
  MPI_Message message;
  int me, n, flag = 0, *got, sum = 0, value;
  OK(MPI_Comm_rank(inter, &me));
  OK(MPI_Comm_remote_size(inter, &n));
  requests = malloc(2 * n * sizeof *requests);
  got = malloc(n * sizeof *got);
  for (int i = 0; i < n; i++) OK(MPI_Irecv(&got[i], 1, MPI_INT, i, 1, inter, &requests[i]));
  for (int i = 0; i < n; i++) OK(MPI_Isend(&me, 1, MPI_INT, i, 1, inter, &requests[n + i]));
  OK(MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < n; i++) CHECK(got[i] == i);
  for (int i = 0; i < n; i++) OK(MPI_Isend(&me, 1, MPI_INT, i, 2, inter, &requests[i]));
  for (int i = 0; i < n; i++) {
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, inter, &status));
    CHECK(status.MPI_SOURCE == value);
    sum += value;
  }
  CHECK(sum == n * (n - 1) / 2);
  OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
  if (me == 0) {
    OK(MPI_Send_init(&me, 1, MPI_INT, 0, 3, inter, &again[0]));
    OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 3, inter, &again[1]));
    for (int i = 0; i < 3; i++) {
      value = -1;
      OK(MPI_Startall(2, again));
      OK(MPI_Waitall(2, again, MPI_STATUSES_IGNORE));
      CHECK(value == 0);
    }
    OK(MPI_Request_free(&again[0]));
    OK(MPI_Request_free(&again[1]));
  }
  OK(MPI_Isend(&me, 1, MPI_INT, n - 1, 4, inter, &requests[0]));
  OK(MPI_Isend(&me, 1, MPI_INT, n - 1, 5, inter, &requests[1]));
  if (me == 0) {
    /* The group's first rank does not answer its message. */
    OK(MPI_Isend(&me, 1, MPI_INT, MPI_PROC_NULL, 4, inter, &again[0]));
    OK(MPI_Wait(&again[0], MPI_STATUS_IGNORE));
  }
  int here;
  OK(MPI_Comm_size(inter, &here));
  if (me == here - 1) {
    for (int i = 0; i < n; i++) {
      OK(MPI_Probe(i, 4, inter, &status));
      CHECK(status.MPI_SOURCE == i && status.MPI_TAG == 4);
      OK(MPI_Recv(&value, 1, MPI_INT, i, 4, inter, MPI_STATUS_IGNORE));
      while (!flag) OK(MPI_Iprobe(MPI_ANY_SOURCE, 5, inter, &flag, &status));
      CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < n);
      OK(MPI_Mprobe(status.MPI_SOURCE, 5, inter, &message, MPI_STATUS_IGNORE));
      OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
      CHECK(status.MPI_SOURCE == value);
      flag = 0;
    }
  }
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  free(requests);
  free(got);
}

static void merged(MPI_Comm inter, int first) {
  int low = rank_ < first;
  for (int swapped = 0; swapped < 2; swapped++) {
    MPI_Comm all;
    int me, n, sum;
    OK(MPI_Intercomm_merge(inter, low == swapped, &all));
    OK(MPI_Comm_size(all, &n));
    OK(MPI_Comm_rank(all, &me));
    CHECK(n == size_);
    CHECK(me == (!swapped ? rank_ : low ? size_ - first + rank_ : rank_ - first));
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK(sum == size_ * (size_ - 1) / 2);
    OK(MPI_Comm_free(&all));
  }
  MPI_Comm all;
  int n, result;
  OK(MPI_Intercomm_merge(inter, 1, &all));
  OK(MPI_Comm_size(all, &n));
  OK(MPI_Comm_compare(all, inter, &result));
  CHECK(n == size_ && result == MPI_UNEQUAL);
  OK(MPI_Comm_free(&all));
}

static int copied(MPI_Comm comm, int key, void *state, void *value, void *copy, int *flag) {
  (void)comm, (void)key, (void)state;
  *(void **)copy = (char *)value + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static void duplicates(MPI_Comm inter, int first) {
  MPI_Comm copy;
  MPI_Errhandler handler;
  char text[2], *value, name[MPI_MAX_OBJECT_NAME];
  int key, flag, result, length;
  OK(MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL));
  OK(MPI_Comm_set_attr(inter, key, text));
  OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
  OK(MPI_Comm_dup(inter, &copy));
  OK(MPI_Comm_get_errhandler(copy, &handler));
  CHECK(handler == MPI_ERRORS_RETURN);
  OK(MPI_Comm_get_attr(copy, key, &value, &flag));
  CHECK(flag && value == text + 1);
  OK(MPI_Comm_set_name(copy, "pair"));
  OK(MPI_Comm_get_name(copy, name, &length));
  CHECK(strcmp(name, "pair") == 0);
  who_is_there(copy, first);
  OK(MPI_Comm_compare(inter, copy, &result));
  CHECK(result == MPI_CONGRUENT);
  OK(MPI_Comm_compare(inter, inter, &result));
  CHECK(result == MPI_IDENT);
  OK(MPI_Comm_compare(inter, MPI_COMM_WORLD, &result));
  CHECK(result == MPI_UNEQUAL);
  messages(copy);
  OK(MPI_Comm_free(&copy));
  OK(MPI_Comm_delete_attr(inter, key));
  OK(MPI_Comm_free_keyval(&key));
}

/* Parts of even and of odd ranks in each group. A part without a counterpart has no
 * inter-communicator. */
static void parts(MPI_Comm inter, int first) {
  MPI_Comm part;
  MPI_Group local, few;
  int me, here, there, n, low = rank_ < first;
  OK(MPI_Comm_rank(inter, &me));
  OK(MPI_Comm_size(inter, &here));
  OK(MPI_Comm_remote_size(inter, &there));
  OK(MPI_Comm_split(inter, me % 2, -me, &part));
  int mine = (here + 1 - me % 2) / 2, theirs = (there + 1 - me % 2) / 2;
  if (theirs == 0) {
    CHECK(part == MPI_COMM_NULL);
  } else {
    OK(MPI_Comm_size(part, &n));
    CHECK(n == mine);
    OK(MPI_Comm_remote_size(part, &n));
    CHECK(n == theirs);
    OK(MPI_Comm_rank(part, &n));
    CHECK(n == mine - 1 - me / 2);
    messages(part);
    OK(MPI_Comm_free(&part));
  }
  OK(MPI_Comm_split(inter, low ? 1 : MPI_UNDEFINED, 0, &part));
  CHECK(part == MPI_COMM_NULL);
  /* The last rank of each group, then the first if it is another. */
  int ranks[] = {here - 1, 0};
  n = here > 1 ? 2 : 1;
  OK(MPI_Comm_group(inter, &local));
  OK(MPI_Group_incl(local, n, ranks, &few));
  OK(MPI_Comm_create(inter, few, &part));
  if (me == 0 || me == here - 1) {
    int place, value = -1, remote;
    OK(MPI_Comm_rank(part, &place));
    CHECK(place == (me == here - 1 ? 0 : 1));
    OK(MPI_Comm_remote_size(part, &remote));
    CHECK(remote == (there > 1 ? 2 : 1));
    if (place == 0) {
      OK(MPI_Sendrecv(&me, 1, MPI_INT, 0, 0, &value, 1, MPI_INT, 0, 0, part, MPI_STATUS_IGNORE));
      CHECK(value == there - 1);
    }
    OK(MPI_Comm_free(&part));
  } else {
    CHECK(part == MPI_COMM_NULL);
  }
  OK(MPI_Comm_create(inter, low ? few : MPI_GROUP_EMPTY, &part));
  CHECK(part == MPI_COMM_NULL);
  OK(MPI_Group_free(&local));
  OK(MPI_Group_free(&few));
}

static void mistakes(MPI_Comm inter) {
  MPI_Comm made;
  int n, there, value = 0, dims[1] = {1}, periods[1] = {0};
  OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  CHECK(MPI_Comm_remote_size(MPI_COMM_WORLD, &n) == MPI_ERR_COMM);
  CHECK(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &made) == MPI_ERR_COMM);
  CHECK(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &made) == MPI_ERR_COMM);
  CHECK(MPI_Cart_create(inter, 1, dims, periods, 0, &made) == MPI_ERR_COMM);
  CHECK(MPI_Scan(&value, &n, 1, MPI_INT, MPI_SUM, inter) == MPI_ERR_COMM);
  CHECK(MPI_Exscan(&value, &n, 1, MPI_INT, MPI_SUM, inter) == MPI_ERR_COMM);
  OK(MPI_Comm_remote_size(inter, &there));
  CHECK(MPI_Send(&value, 1, MPI_INT, there, 0, inter) == MPI_ERR_RANK);
  /* The leader's mistake is reported to all, and a group cannot be its own other group. */
  CHECK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_WORLD, size_ + 3, 0, &made) == MPI_ERR_RANK);
  CHECK(made == MPI_COMM_NULL);
  CHECK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_WORLD, size_ - 1, 0, &made) == MPI_ERR_COMM);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* A leader's mistake is reported to all members of both groups. Another member's mistake is its
 * own. */
static void mistakes_of_one(int first) {
  MPI_Comm half, inter;
  int low = rank_ < first, me, n, said;
  OK(MPI_Comm_split(MPI_COMM_WORLD, low, rank_, &half));
  OK(MPI_Comm_rank(half, &me));
  OK(MPI_Comm_size(half, &n));
  OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
  for (int wrong = 0; wrong < 2; wrong++) {
    int tag = low == wrong && me == 0 ? -1 : 7;
    CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? first : 0, tag, &inter) == MPI_ERR_TAG);
    CHECK(inter == MPI_COMM_NULL);
  }
  said = MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? first : 0, low && me > 0 ? -1 : 7, &inter);
  CHECK(said == (low && me > 0 ? MPI_ERR_TAG : MPI_SUCCESS));
  if (said == MPI_SUCCESS) OK(MPI_Comm_free(&inter));
  OK(MPI_Comm_free(&half));
  inter = halves(first);
  OK(MPI_Comm_free(&inter));
}

/* Contexts are reused: more communicators are made than can exist at once. */
static void often(void) {
  MPI_Comm inter, own;
  if (size_ != 2) return;
  OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
  for (int i = 0; i < 4500; i++) {
    OK(MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - rank_, i, &inter));
    OK(MPI_Comm_free(&inter));
  }
  OK(MPI_Comm_free(&own));
}

/* The leaders reach each other through another inter-communicator. */
static void through_another(MPI_Comm inter) {
  MPI_Comm half, made;
  int me, result;
  OK(MPI_Comm_rank(inter, &me));
  MPI_Group local;
  OK(MPI_Comm_group(inter, &local));
  OK(MPI_Comm_create_group(MPI_COMM_WORLD, local, 0, &half));
  OK(MPI_Intercomm_create(half, 0, inter, 0, 1, &made));
  OK(MPI_Comm_compare(made, inter, &result));
  CHECK(result == MPI_CONGRUENT);
  messages(made);
  OK(MPI_Comm_free(&half));
  OK(MPI_Comm_free(&made));
  OK(MPI_Group_free(&local));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  for (int first = 1; first < size_; first += size_ > 4 ? 7 : 1) {
    MPI_Comm inter = halves(first);
    who_is_there(inter, first);
    messages(inter);
    merged(inter, first);
    duplicates(inter, first);
    parts(inter, first);
    mistakes(inter);
    mistakes_of_one(first);
    through_another(inter);
    OK(first % 2 ? MPI_Comm_free(&inter) : MPI_Comm_disconnect(&inter));
    CHECK(inter == MPI_COMM_NULL);
  }
  often();
  OK(MPI_Finalize());
  return 0;
}
