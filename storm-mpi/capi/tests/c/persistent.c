/* Collectives that are started again and again. */
#include "check.h"

enum { COUNT = 5, LAPS = 3, KINDS = 18, LONG = 40000 };

static MPI_Comm comm;
static int me, n, most;

/* The data of a collective, with room for `most` elements for each member, and a few elements
 * that must stay unchanged. */
struct work {
  int *send, *recv, *counts, *displs, *bytes;
  MPI_Datatype *types;
  MPI_Request request;
};

static struct work works[KINDS];

static void make_room(struct work *w) {
  w->send = malloc((n * most + 1) * sizeof(int));
  w->recv = malloc((n * most + 1) * sizeof(int));
  w->counts = malloc(n * sizeof(int));
  w->displs = malloc(n * sizeof(int));
  w->bytes = malloc(n * sizeof(int));
  w->types = malloc(n * sizeof *w->types);
  for (int i = 0; i < n; i++) {
    w->counts[i] = most;
    /* The blocks lie in reverse order. */
    w->displs[i] = (n - 1 - i) * most;
    w->bytes[i] = w->displs[i] * (int)sizeof(int);
    w->types[i] = MPI_INT;
  }
}

static void sum_of(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void init(int kind, struct work *w, MPI_Datatype type, MPI_Op op, int root) {
  MPI_Request *r = &w->request;
  int *s = w->send, *d = w->recv, *c = w->counts, *at = w->displs;
  MPI_Info none = MPI_INFO_NULL;
  switch (kind) {
    case 0: OK(MPI_Barrier_init(comm, none, r)); break;
    case 1: OK(MPI_Bcast_init(d, most, type, root, comm, none, r)); break;
    case 2: OK(MPI_Gather_init(s, most, type, d, most, type, root, comm, none, r)); break;
    case 3: OK(MPI_Gatherv_init(s, most, type, d, c, at, type, root, comm, none, r)); break;
    case 4: OK(MPI_Scatter_init(s, most, type, d, most, type, root, comm, none, r)); break;
    case 5: OK(MPI_Scatterv_init(s, c, at, type, d, most, type, root, comm, none, r)); break;
    case 6: OK(MPI_Allgather_init(s, most, type, d, most, type, comm, none, r)); break;
    case 7: OK(MPI_Allgatherv_init(s, most, type, d, c, at, type, comm, none, r)); break;
    case 8: OK(MPI_Alltoall_init(s, most, type, d, most, type, comm, none, r)); break;
    case 9: OK(MPI_Alltoallv_init(s, c, at, type, d, c, at, type, comm, none, r)); break;
    case 10: OK(MPI_Alltoallw_init(s, c, w->bytes, w->types, d, c, w->bytes, w->types, comm, none, r)); break;
    case 11: OK(MPI_Reduce_init(s, d, most, type, op, root, comm, none, r)); break;
    case 12: OK(MPI_Allreduce_init(s, d, most, type, op, comm, none, r)); break;
    case 13: OK(MPI_Scan_init(s, d, most, type, op, comm, none, r)); break;
    case 14: OK(MPI_Exscan_init(s, d, most, type, op, comm, none, r)); break;
    case 15: OK(MPI_Reduce_scatter_init(s, d, c, type, op, comm, none, r)); break;
    case 16: OK(MPI_Reduce_scatter_block_init(s, d, most, type, op, comm, none, r)); break;
    case 17: OK(MPI_Allreduce_init(MPI_IN_PLACE, d, most, type, op, comm, none, r)); break;
  }
}

/* Element `i` of member `from` in this lap. */
static int element(int from, int i, int lap) { return 7 * from + i + 1000 * lap; }

static void fill(int kind, struct work *w, int lap) {
  for (int i = 0; i <= n * most; i++) w->send[i] = element(me, i, lap), w->recv[i] = -1;
  if (kind == 1 || kind == 17) memcpy(w->recv, w->send, most * sizeof(int));
}

static int sum(int members, int i, int lap) {
  int all = 0;
  for (int from = 0; from < members; from++) all += element(from, i, lap);
  return all;
}

static void hold(int kind, struct work *w, int lap, int root) {
  int *d = w->recv;
  for (int i = 0; i < most; i++) {
    if (kind == 1) CHECK(d[i] == element(root, i, lap));
    if (kind == 4) CHECK(d[i] == element(root, me * most + i, lap));
    if (kind == 5) CHECK(d[i] == element(root, (n - 1 - me) * most + i, lap));
    if (kind == 11 && me == root) CHECK(d[i] == sum(n, i, lap));
    if (kind == 12 || kind == 17) CHECK(d[i] == sum(n, i, lap));
    if (kind == 13) CHECK(d[i] == sum(me + 1, i, lap));
    if (kind == 14 && me > 0) CHECK(d[i] == sum(me, i, lap));
    if (kind == 15 || kind == 16) CHECK(d[i] == sum(n, me * most + i, lap));
    for (int from = 0; from < n; from++) {
      int in_order = d[from * most + i], reversed = d[(n - 1 - from) * most + i];
      if ((kind == 2 && me == root) || kind == 6) CHECK(in_order == element(from, i, lap));
      if ((kind == 3 && me == root) || kind == 7) CHECK(reversed == element(from, i, lap));
      if (kind == 8) CHECK(in_order == element(from, me * most + i, lap));
      if (kind == 9 || kind == 10) CHECK(reversed == element(from, (n - 1 - me) * most + i, lap));
    }
  }
  CHECK(d[n * most] == -1);
}

static void free_room(struct work *w) {
  OK(MPI_Request_free(&w->request));
  CHECK(w->request == MPI_REQUEST_NULL);
  free(w->send), free(w->recv), free(w->counts), free(w->displs), free(w->bytes), free(w->types);
}

/* Collectives one after the other, with blocking ones in between. */
static void each(int count) {
  most = count;
  for (int kind = 0; kind < KINDS; kind++) {
    struct work *w = &works[kind];
    int root = kind % n, flag;
    make_room(w);
    init(kind, w, MPI_INT, MPI_SUM, root);
    OK(MPI_Wait(&w->request, MPI_STATUS_IGNORE));
    CHECK(w->request != MPI_REQUEST_NULL);
    for (int lap = 0; lap < LAPS; lap++) {
      int told = lap;
      fill(kind, w, lap);
      OK(MPI_Start(&w->request));
      if (lap == 1) OK(MPI_Bcast(&told, 1, MPI_INT, root, comm));
      if (lap < 2) OK(MPI_Wait(&w->request, MPI_STATUS_IGNORE));
      else do OK(MPI_Test(&w->request, &flag, MPI_STATUS_IGNORE));
        while (!flag);
      CHECK(w->request != MPI_REQUEST_NULL);
      hold(kind, w, lap, root);
    }
    free_room(w);
  }
}

/* Acts as if the program had freed its arrays, and their next owner wrote to them. */
static void spoil(struct work *w) {
  for (int i = 0; i < n; i++) w->counts[i] = w->displs[i] = w->bytes[i] = 1 << 30, w->types[i] = MPI_DATATYPE_NULL;
}

/* All collectives at once, started in different orders. The objects they were made with are
 * freed. */
static void all_at_once(void) {
  MPI_Datatype type, other;
  MPI_Op op;
  MPI_Request requests[KINDS];
  most = COUNT;
  OK(MPI_Op_create(sum_of, 1, &op));
  OK(MPI_Type_dup(MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  for (int kind = 0; kind < KINDS; kind++) {
    make_room(&works[kind]);
    for (int i = 0; i < n; i++) works[kind].types[i] = type;
    init(kind, &works[kind], type, op, kind % n);
    spoil(&works[kind]);
  }
  OK(MPI_Type_free(&type));
  OK(MPI_Op_free(&op));
  /* The new types have the handles now. */
  OK(MPI_Type_contiguous(3, MPI_DOUBLE, &other));
  OK(MPI_Op_create(sum_of, 0, &op));
  for (int lap = 0; lap < LAPS; lap++) {
    for (int kind = 0; kind < KINDS; kind++) fill(kind, &works[kind], lap);
    for (int i = 0; i < KINDS; i++) requests[i] = works[(i * 5 + me * (lap + 1)) % KINDS].request;
    OK(MPI_Startall(KINDS, requests));
    if (lap == 2) OK(MPI_Barrier(comm));
    OK(MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE));
    for (int kind = 0; kind < KINDS; kind++) hold(kind, &works[kind], lap, kind % n);
  }
  for (int kind = 0; kind < KINDS; kind++) free_room(&works[kind]);
  OK(MPI_Type_free(&other));
  OK(MPI_Op_free(&op));
}

/* The communicator is freed, and then the request while it is active. */
static void freed(void) {
  MPI_Comm copy, whole = comm;
  struct work *w = &works[0];
  most = COUNT;
  OK(MPI_Comm_dup(comm, &copy));
  comm = copy;
  make_room(w);
  init(12, w, MPI_INT, MPI_SUM, 0);
  comm = whole;
  OK(MPI_Comm_free(&copy));
  for (int lap = 0; lap < LAPS; lap++) {
    fill(12, w, lap);
    OK(MPI_Start(&w->request));
    if (lap == LAPS - 1) break;
    OK(MPI_Wait(&w->request, MPI_STATUS_IGNORE));
    hold(12, w, lap, 0);
  }
  OK(MPI_Request_free(&w->request));
  OK(MPI_Barrier(comm));
  OK(MPI_Barrier(comm));
}

static void between_groups(void) {
  MPI_Comm half, inter;
  MPI_Request requests[2];
  int low = rank_ < size_ / 2, first = size_ / 2, mine, all, told;
  if (size_ == 1) return;
  OK(MPI_Comm_split(MPI_COMM_WORLD, low, rank_, &half));
  OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? first : 0, 7, &inter));
  int root = low ? rank_ == 0 ? MPI_ROOT : MPI_PROC_NULL : 0;
  OK(MPI_Allreduce_init(&mine, &all, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &requests[0]));
  OK(MPI_Bcast_init(&told, 1, MPI_INT, root, inter, MPI_INFO_NULL, &requests[1]));
  for (int lap = 0; lap < LAPS; lap++) {
    mine = rank_ + lap, told = low ? lap : -1;
    OK(MPI_Startall(2, requests));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    int sum = 0;
    for (int i = low ? first : 0; i < (low ? size_ : first); i++) sum += i + lap;
    CHECK(all == sum && told == lap);
  }
  OK(MPI_Request_free(&requests[0]));
  OK(MPI_Request_free(&requests[1]));
  OK(MPI_Comm_free(&inter));
  OK(MPI_Comm_free(&half));
}

/* Mistakes show when the request starts, and it may be started again. */
static void mistakes(void) {
  MPI_Request request, barrier;
  int value = 0;
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  CHECK(MPI_Barrier_init(comm, 77, &barrier) == MPI_ERR_INFO);
  OK(MPI_Bcast_init(&value, 1, MPI_INT, n, comm, MPI_INFO_NULL, &request));
  CHECK(MPI_Start(&request) == MPI_ERR_ROOT && MPI_Start(&request) == MPI_ERR_ROOT);
  OK(MPI_Request_free(&request));
  OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &barrier));
  OK(MPI_Start(&barrier));
  CHECK(MPI_Start(&barrier) == MPI_ERR_REQUEST);
  OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
  OK(MPI_Request_free(&barrier));
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  for (int reversed = 0; reversed < 2; reversed++) {
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, reversed ? -rank_ : rank_, &comm));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &n));
    each(0);
    each(COUNT);
    if (!reversed) each(LONG / n);
    all_at_once();
    freed();
    mistakes();
    OK(MPI_Comm_free(&comm));
  }
  between_groups();
  return MPI_Finalize();
}
