/* Collectives between two groups, at once and in the background. */
#include "check.h"

/* Lengths of short blocks, of blocks that go by other ways, and of announced ones. */
static const int lengths[] = {0, 1, 700, 30000};

static MPI_Comm half, inter;
static int low, me, here, there;

static void make(int first) {
  low = rank_ < first;
  OK(MPI_Comm_split(MPI_COMM_WORLD, low, rank_, &half));
  OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? first : 0, 0, &inter));
  OK(MPI_Comm_rank(inter, &me));
  OK(MPI_Comm_size(inter, &here));
  OK(MPI_Comm_remote_size(inter, &there));
}

/* The i-th word of a member's data for another member. */
static int word(int is_low, int from, int to, int i) { return is_low * 1000000 + from * 10000 + to * 100 + i % 89; }

static int *words(int count) { return calloc(count + 1, sizeof(int)); }

/* The way of calling: 1 in the background. */
#define DO(call_, icall_)                         \
  do {                                            \
    if (background) {                             \
      MPI_Request request;                        \
      OK(icall_);                                 \
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));  \
    } else {                                      \
      OK(call_);                                  \
    }                                             \
  } while (0)

/* The roots belong to the lower ranks, then to the others. */
static int root_of(int side, int root) { return low != side ? root : me == root ? MPI_ROOT : MPI_PROC_NULL; }

static void with_roots(int side, int n, int background) {
  int givers = low == side ? there : here, roots = low == side ? here : there;
  for (int root = 0; root < roots; root += roots > 3 ? 5 : 1) {
    int *data = words(n), *all = words(givers * n), named = root_of(side, root), is_root = named == MPI_ROOT;
    if (is_root)
      for (int i = 0; i < n; i++) data[i] = word(side, root, 0, i);
    DO(MPI_Bcast(data, n, MPI_INT, named, inter), MPI_Ibcast(data, n, MPI_INT, named, inter, &request));
    if (low != side)
      for (int i = 0; i < n; i++) CHECK(data[i] == word(side, root, 0, i));
    else if (!is_root)
      for (int i = 0; i < n; i++) CHECK(data[i] == 0);
    for (int i = 0; i < n; i++) data[i] = word(low, me, root, i);
    DO(MPI_Gather(data, n, MPI_INT, all, n, MPI_INT, named, inter),
       MPI_Igather(data, n, MPI_INT, all, n, MPI_INT, named, inter, &request));
    for (int i = 0; i < givers * n; i++) CHECK(all[i] == (is_root ? word(!side, i / n, root, i % n) : 0));
    if (is_root)
      for (int i = 0; i < givers * n; i++) all[i] = word(side, root, i / n, i % n);
    DO(MPI_Scatter(all, n, MPI_INT, data, n, MPI_INT, named, inter),
       MPI_Iscatter(all, n, MPI_INT, data, n, MPI_INT, named, inter, &request));
    if (low != side)
      for (int i = 0; i < n; i++) CHECK(data[i] == word(side, root, me, i));
    free(data);
    free(all);
  }
}

/* Member m of the sending group has m words, which lie with gaps at the root. */
static void uneven_with_roots(int side, int background) {
  int givers = low == side ? there : here;
  int *counts = words(givers), *displs = words(givers), *all = words(2 * givers * givers + givers), *data = words(givers);
  int named = root_of(side, 0), is_root = named == MPI_ROOT, mine = low == side ? 0 : me;
  for (int m = 0; m < givers; m++) counts[m] = m, displs[m] = m * (givers + 1);
  for (int i = 0; i < mine; i++) data[i] = word(low, me, 0, i);
  DO(MPI_Gatherv(data, mine, MPI_INT, all, counts, displs, MPI_INT, named, inter),
     MPI_Igatherv(data, mine, MPI_INT, all, counts, displs, MPI_INT, named, inter, &request));
  for (int m = 0; m < givers; m++)
    for (int i = 0; i <= givers; i++) CHECK(all[displs[m] + i] == (is_root && i < m ? word(!side, m, 0, i) : 0));
  for (int i = 0; i < mine; i++) data[i] = 0;
  DO(MPI_Scatterv(all, counts, displs, MPI_INT, data, mine, MPI_INT, named, inter),
     MPI_Iscatterv(all, counts, displs, MPI_INT, data, mine, MPI_INT, named, inter, &request));
  for (int i = 0; i < mine; i++) CHECK(data[i] == word(low, me, 0, i));
  free(counts), free(displs), free(all), free(data);
}

/* The lower ranks give n words each, the others give 2 n. */
static void all_to_all(int n, int background) {
  int mine = low ? n : 2 * n, theirs = low ? 2 * n : n;
  int *data = words(there * mine), *all = words(there * theirs);
  int *counts = words(there), *displs = words(there), *given = words(there), *at = words(there);
  MPI_Datatype *types = malloc(there * sizeof *types);
  for (int i = 0; i < mine; i++) data[i] = word(low, me, 0, i);
  DO(MPI_Allgather(data, mine, MPI_INT, all, theirs, MPI_INT, inter),
     MPI_Iallgather(data, mine, MPI_INT, all, theirs, MPI_INT, inter, &request));
  for (int i = 0; i < there * theirs; i++) CHECK(all[i] == word(!low, i / theirs, 0, i % theirs));
  for (int i = 0; i < there * mine; i++) data[i] = word(low, me, i / (mine + !mine), i % (mine + !mine));
  DO(MPI_Alltoall(data, mine, MPI_INT, all, theirs, MPI_INT, inter),
     MPI_Ialltoall(data, mine, MPI_INT, all, theirs, MPI_INT, inter, &request));
  for (int i = 0; i < there * theirs; i++) CHECK(all[i] == word(!low, i / theirs, me, i % theirs));
  /* The received blocks lie in reverse order. */
  for (int m = 0; m < there; m++) {
    counts[m] = theirs, given[m] = mine, at[m] = m * mine, displs[m] = (there - 1 - m) * theirs, types[m] = MPI_INT;
  }
  DO(MPI_Alltoallv(data, given, at, MPI_INT, all, counts, displs, MPI_INT, inter),
     MPI_Ialltoallv(data, given, at, MPI_INT, all, counts, displs, MPI_INT, inter, &request));
  for (int m = 0; m < there; m++)
    for (int i = 0; i < theirs; i++) CHECK(all[displs[m] + i] == word(!low, m, me, i));
  DO(MPI_Allgatherv(data, mine, MPI_INT, all, counts, displs, MPI_INT, inter),
     MPI_Iallgatherv(data, mine, MPI_INT, all, counts, displs, MPI_INT, inter, &request));
  for (int m = 0; m < there; m++)
    for (int i = 0; i < theirs; i++) CHECK(all[displs[m] + i] == word(!low, m, 0, i));
  for (int m = 0; m < there; m++) at[m] *= sizeof(int), displs[m] = m * theirs * sizeof(int);
  DO(MPI_Alltoallw(data, given, at, types, all, counts, displs, types, inter),
     MPI_Ialltoallw(data, given, at, types, all, counts, displs, types, inter, &request));
  for (int i = 0; i < there * theirs; i++) CHECK(all[i] == word(!low, i / theirs, me, i % theirs));
  free(data), free(all), free(counts), free(displs), free(given), free(at), free(types);
}

/* Only one group has data for the other. */
static void one_way(int background) {
  int mine = low ? 3 : 0, theirs = low ? 0 : 3, data[3] = {me, me, me}, *all = words(3 * there);
  DO(MPI_Allgather(data, mine, MPI_INT, all, theirs, MPI_INT, inter),
     MPI_Iallgather(data, mine, MPI_INT, all, theirs, MPI_INT, inter, &request));
  for (int i = 0; i < 3 * there; i++) CHECK(all[i] == (low ? 0 : i / 3));
  free(all);
}

/* Sums that depend on their order. The other group gets the result that the group has by itself. */
static void reductions(int n, int background) {
  double *mine = calloc(n + 1, 8), *own = calloc(n + 1, 8), *theirs = calloc(n + 1, 8), *got = calloc(n + 1, 8);
  double *part = calloc(n + 1, 8);
  int *counts = words(here), named, at = 0;
  MPI_Status status;
  for (int i = 0; i < n; i++) mine[i] = 1.0 / (3 + rank_ + i % 97) * (rank_ % 3 ? 1e-7 : 1e5);
  OK(MPI_Allreduce(mine, own, n, MPI_DOUBLE, MPI_SUM, half));
  if (me == 0) OK(MPI_Sendrecv(own, n, MPI_DOUBLE, 0, 9, theirs, n, MPI_DOUBLE, 0, 9, inter, &status));
  OK(MPI_Bcast(theirs, n, MPI_DOUBLE, 0, half));
  DO(MPI_Allreduce(mine, got, n, MPI_DOUBLE, MPI_SUM, inter),
     MPI_Iallreduce(mine, got, n, MPI_DOUBLE, MPI_SUM, inter, &request));
  CHECK(memcmp(got, theirs, 8 * n) == 0);
  for (int side = 0; side < 2; side++) {
    int root = (low == side ? here : there) - 1;
    memset(got, 0, 8 * n);
    named = root_of(side, root);
    DO(MPI_Reduce(mine, got, n, MPI_DOUBLE, MPI_SUM, named, inter),
       MPI_Ireduce(mine, got, n, MPI_DOUBLE, MPI_SUM, named, inter, &request));
    if (named == MPI_ROOT) CHECK(memcmp(got, theirs, 8 * n) == 0);
    else for (int i = 0; i < n; i++) CHECK(got[i] == 0);
  }
  /* The last member has the rest. */
  for (int m = 0; m < here; m++) counts[m] = m < here - 1 ? n / (here + 1) : n - (here - 1) * (n / (here + 1));
  for (int m = 0; m < me; m++) at += counts[m];
  DO(MPI_Reduce_scatter(mine, part, counts, MPI_DOUBLE, MPI_SUM, inter),
     MPI_Ireduce_scatter(mine, part, counts, MPI_DOUBLE, MPI_SUM, inter, &request));
  CHECK(memcmp(part, theirs + at, 8 * counts[me]) == 0);
  int block = n / (here * there), whole = block * here * there;
  if (n > 0 && n % (here * there) == 0) {
    /* Both groups have equally many words in all. */
    DO(MPI_Reduce_scatter_block(mine, part, whole / here, MPI_DOUBLE, MPI_SUM, inter),
       MPI_Ireduce_scatter_block(mine, part, whole / here, MPI_DOUBLE, MPI_SUM, inter, &request));
    CHECK(memcmp(part, theirs + me * (whole / here), 8 * (whole / here)) == 0);
  }
  if (me == 0 && n == 700) {
    unsigned long bits = 0;
    for (int i = 0; i < n; i++) {
      unsigned long one;
      memcpy(&one, &theirs[i], 8);
      bits = bits * 31 + one;
    }
    printf("%d-%d-%d %lx\n", size_, here, low, bits);
  }
  free(mine), free(own), free(theirs), free(got), free(part), free(counts);
}

/* Several collectives at once, with blocking ones and collectives of one group in between. */
static void several(void) {
  enum { TIMES = 6 };
  MPI_Request requests[3 * TIMES];
  int data[TIMES], sums[TIMES], mine[TIMES], sum, named = root_of(1, 0);
  for (int t = 0; t < TIMES; t++) {
    mine[t] = t + low;
    data[t] = named == MPI_ROOT ? t + 1 : 0;
    OK(MPI_Ibcast(&data[t], 1, MPI_INT, named, inter, &requests[3 * t]));
    OK(MPI_Iallreduce(&mine[t], &sums[t], 1, MPI_INT, MPI_SUM, inter, &requests[3 * t + 1]));
    OK(MPI_Ibarrier(inter, &requests[3 * t + 2]));
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, half));
    CHECK(sum == here * (here - 1) / 2);
    OK(MPI_Barrier(inter));
  }
  OK(MPI_Waitall(3 * TIMES, requests, MPI_STATUSES_IGNORE));
  for (int t = 0; t < TIMES; t++) {
    CHECK(sums[t] == there * (t + !low));
    CHECK(data[t] == (low && me != 0 ? 0 : t + 1));
  }
}

/* No member leaves a barrier before all members of the other group have come. The last rank, or
 * the first, comes when all others have seen that the barrier is not over. */
static void barriers(void) {
  for (int late = 0; late < size_; late += size_ - 1) {
    MPI_Request request;
    int value = 0, flag = 0, is_across = (late == 0) != low;
    if (rank_ == late)
      for (int i = 1; i < size_; i++) OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Ibarrier(inter, &request));
    if (rank_ != late) {
      for (int i = 0; i < 20 && is_across; i++) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
      }
      OK(MPI_Send(&value, 1, MPI_INT, late, 5, MPI_COMM_WORLD));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(inter));
  }
}

static void mistakes(void) {
  int value = 0, *all = words(there), *counts = words(here + there);
  MPI_Request request;
  OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
  CHECK(MPI_Bcast(&value, 1, MPI_INT, there, inter) == MPI_ERR_ROOT);
  CHECK(MPI_Bcast(&value, 1, MPI_INT, MPI_ANY_SOURCE, inter) == MPI_ERR_ROOT);
  CHECK(MPI_Ibcast(&value, 1, MPI_INT, there, inter, &request) == MPI_ERR_ROOT);
  CHECK(MPI_Scan(&value, all, 1, MPI_INT, MPI_SUM, inter) == MPI_ERR_COMM);
  CHECK(MPI_Iscan(&value, all, 1, MPI_INT, MPI_SUM, inter, &request) == MPI_ERR_COMM);
  CHECK(MPI_Iexscan(&value, all, 1, MPI_INT, MPI_SUM, inter, &request) == MPI_ERR_COMM);
  CHECK(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, inter) == MPI_ERR_BUFFER);
  CHECK(MPI_Reduce_scatter(MPI_IN_PLACE, all, counts, MPI_INT, MPI_SUM, inter) == MPI_ERR_BUFFER);
  CHECK(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, inter) == MPI_ERR_BUFFER);
  CHECK(MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, inter) == MPI_ERR_BUFFER);
  CHECK(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, 0, inter) == MPI_ERR_BUFFER);
  /* A refused call is not counted. */
  OK(MPI_Ibarrier(inter, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  free(all);
  free(counts);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  for (int first = 1; first < size_; first += size_ > 4 ? 6 : 1) {
    make(first);
    for (int background = 0; background < 2; background++) {
      for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int side = 0; side < 2; side++) with_roots(side, lengths[i], background);
        all_to_all(lengths[i], background);
        reductions(lengths[i], background);
      }
      reductions(here * there * 10, background);
      for (int side = 0; side < 2; side++) uneven_with_roots(side, background);
      one_way(background);
    }
    barriers();
    several();
    mistakes();
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&inter));
  }
  OK(MPI_Finalize());
  return 0;
}
