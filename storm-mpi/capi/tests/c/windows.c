/* One-sided communication: every kind of window, epoch and operation, compared with the expected
 * results. */
#include "check.h"
#include <stdint.h>

enum { ROUNDS = 20, LONG = 150000, MANY = 300 };

static int me, n, left, right;

/* A window of either kind over zeroed ints. */
static MPI_Win over(int allocated, int count, int **base) {
  MPI_Win win;
  MPI_Aint bytes = count * (MPI_Aint)sizeof(int);
  if (allocated) {
    OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, base, &win));
    for (int i = 0; i < count; i++) (*base)[i] = 0;
  } else {
    *base = calloc(count + 1, sizeof(int));
    OK(MPI_Win_create(*base, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  return win;
}

static void end(int allocated, int *base, MPI_Win *win) {
  OK(MPI_Win_free(win));
  CHECK(*win == MPI_WIN_NULL);
  if (!allocated) free(base);
}

static void fences(int allocated) {
  int *part, got[4], mine[4] = {me, 10 * me, -me, 7};
  MPI_Win win = over(allocated, 4 + n, &part);
  OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  for (int round = 0; round < ROUNDS; round++) {
    mine[3] = round;
    OK(MPI_Put(mine, 4, MPI_INT, right, 0, 4, MPI_INT, win));
    OK(MPI_Put(&mine[1], 1, MPI_INT, (me + round) % n, 4 + me, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(part[0] == left && part[1] == 10 * left && part[2] == -left && part[3] == round);
    CHECK(part[4 + (me + n * ROUNDS - round) % n] == 10 * ((me + n * ROUNDS - round) % n));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(got, 4, MPI_INT, left, 0, 4, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(got[0] == (left + n - 1) % n && got[3] == round);
  }
  part[0] = 0, part[1] = 1000;
  OK(MPI_Win_fence(0, win));
  for (int r = 0; r < n; r++) {
    int values[2] = {me + 1, me};
    OK(MPI_Accumulate(values, 1, MPI_INT, r, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Accumulate(&values[1], 1, MPI_INT, r, 1, 1, MPI_INT, MPI_MIN, win));
  }
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  CHECK(part[0] == n * (n + 1) / 2 && part[1] == 0);
  end(allocated, part, &win);
}

/* A column of a matrix here goes to every third element there, and back. */
static void derived(int allocated) {
  enum { SIDE = 50 };
  static int matrix[SIDE][SIDE], back[SIDE][SIDE];
  int *part;
  MPI_Datatype column, third;
  MPI_Win win = over(allocated, 3 * SIDE + 1, &part);
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) matrix[i][j] = me * 10000 + i * 100 + j, back[i][j] = -1;
  OK(MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &column));
  OK(MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &third));
  OK(MPI_Type_commit(&column));
  OK(MPI_Type_commit(&third));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&matrix[0][4], 1, column, right, 1, SIDE, third, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 3 * SIDE; i++)
    CHECK(part[i] == (i % 3 == 1 ? left * 10000 + i / 3 * 100 + 4 : 0));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Get(&back[0][7], 1, column, right, 1, SIDE, third, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < SIDE; i++) CHECK(back[i][7] == matrix[i][4] && back[i][8] == -1);
  OK(MPI_Accumulate(&matrix[0][4], 1, column, right, 1, SIDE, third, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 3 * SIDE; i++)
    CHECK(part[i] == (i % 3 == 1 ? 2 * (left * 10000 + i / 3 * 100 + 4) : 0));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&third));
  end(allocated, part, &win);
}

/* Each rank opens its part to its neighbours, and reaches theirs. */
static void posted(int allocated) {
  int *part, neighbours[2] = {left, right}, count = left == right ? 1 : 2, flag = 0, got = -1;
  MPI_Group all, group;
  MPI_Win win = over(allocated, 3, &part);
  OK(MPI_Win_get_group(win, &all));
  OK(MPI_Group_incl(all, count, neighbours, &group));
  for (int round = 0; round < ROUNDS; round++) {
    int value = me * 1000 + round;
    part[2] = value;
    OK(MPI_Win_post(group, 0, win));
    OK(MPI_Win_start(group, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win));
    OK(MPI_Put(&value, 1, MPI_INT, left, 1, 1, MPI_INT, win));
    OK(MPI_Get(&got, 1, MPI_INT, right, 2, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    CHECK(got == right * 1000 + round);
    if (round % 2) {
      OK(MPI_Win_wait(win));
    } else {
      for (flag = 0; !flag;) OK(MPI_Win_test(win, &flag));
    }
    CHECK(part[0] == left * 1000 + round && part[1] == right * 1000 + round);
  }
  OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
  OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
  OK(MPI_Win_complete(win));
  OK(MPI_Win_wait(win));
  OK(MPI_Group_free(&group));
  OK(MPI_Group_free(&all));
  end(allocated, part, &win);
}

/* Counters at rank 0: by a lock, by atomic operations, and by a lock that is made of atomic
 * operations. */
static void locks(int allocated) {
  enum { LOCKED, FETCHED, WORD, GUARDED, SUM, COUNTERS };
  int *part, one = 1, value, zero = 0, seen = -1;
  MPI_Win win = over(allocated, COUNTERS, &part);
  for (int round = 0; round < ROUNDS; round++) {
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    OK(MPI_Get(&value, 1, MPI_INT, 0, LOCKED, 1, MPI_INT, win));
    OK(MPI_Win_flush(0, win));
    value++;
    OK(MPI_Put(&value, 1, MPI_INT, 0, LOCKED, 1, MPI_INT, win));
    OK(MPI_Win_unlock(0, win));
  }
  OK(MPI_Win_lock_all(0, win));
  for (int round = 0; round < ROUNDS; round++) {
    int before = seen;
    OK(MPI_Fetch_and_op(&one, &seen, MPI_INT, 0, FETCHED, MPI_SUM, win));
    OK(MPI_Win_flush_local(0, win));
    CHECK(seen > before && seen < n * ROUNDS);
    do {
      OK(MPI_Compare_and_swap(&one, &zero, &value, MPI_INT, 0, WORD, win));
      OK(MPI_Win_flush(0, win));
    } while (value != 0);
    OK(MPI_Get(&value, 1, MPI_INT, 0, GUARDED, 1, MPI_INT, win));
    OK(MPI_Win_flush_all(win));
    value += 2;
    OK(MPI_Put(&value, 1, MPI_INT, 0, GUARDED, 1, MPI_INT, win));
    OK(MPI_Win_flush(0, win));
    OK(MPI_Fetch_and_op(&zero, &value, MPI_INT, 0, WORD, MPI_REPLACE, win));
    OK(MPI_Accumulate(&round, 1, MPI_INT, 0, SUM, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_flush_local_all(win));
    CHECK(value == 1);
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  int all[COUNTERS];
  OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, win));
  OK(MPI_Get_accumulate(NULL, 0, MPI_INT, all, COUNTERS, MPI_INT, 0, 0, COUNTERS, MPI_INT, MPI_NO_OP, win));
  OK(MPI_Win_unlock(0, win));
  CHECK(all[LOCKED] == n * ROUNDS && all[FETCHED] == n * ROUNDS && all[WORD] == 0);
  CHECK(all[GUARDED] == 2 * n * ROUNDS && all[SUM] == n * ROUNDS * (ROUNDS - 1) / 2);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  end(allocated, part, &win);
}

/* Long transfers, by requests, to an owner that waits for something else; many at once. */
static void requests(int allocated) {
  int *part, *from = malloc(LONG * sizeof(int)), *into = calloc(LONG, sizeof(int)), token = 0;
  MPI_Win win = over(allocated, LONG + MANY + 2, &part);
  MPI_Request both[3];
  for (int i = 0; i < LONG; i++) from[i] = me * 31 + i;
  OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
  OK(MPI_Rput(from, LONG, MPI_INT, right, 0, LONG, MPI_INT, win, &both[0]));
  OK(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
  memset(from, 0, LONG * sizeof(int));
  OK(MPI_Win_flush(right, win));
  /* The owner is in a receive meanwhile, or in a barrier. */
  OK(MPI_Send(&me, 1, MPI_INT, right, 5, MPI_COMM_WORLD));
  OK(MPI_Recv(&token, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (int i = 0; i < LONG; i++) CHECK(part[i] == left * 31 + i);
  OK(MPI_Rget(into, LONG, MPI_INT, right, 0, LONG, MPI_INT, win, &both[0]));
  OK(MPI_Rget_accumulate(&me, 1, MPI_INT, &token, 1, MPI_INT, right, LONG + MANY, 1, MPI_INT, MPI_REPLACE, win,
                         &both[1]));
  OK(MPI_Raccumulate(&me, 1, MPI_INT, right, LONG + MANY + 1, 1, MPI_INT, MPI_MAX, win, &both[2]));
  OK(MPI_Waitall(3, both, MPI_STATUSES_IGNORE));
  CHECK(token == 0);
  for (int i = 0; i < LONG; i++) CHECK(into[i] == me * 31 + i);
  memset(into, 0, LONG * sizeof(int));
  OK(MPI_Rget(into, LONG, MPI_INT, right, 0, LONG, MPI_INT, win, &both[0]));
  OK(MPI_Win_flush_all(win));
#ifdef STORM_MPI /* MPICH 4.0.2 does not wait for the data here. */
  CHECK(into[LONG - 1] == me * 31 + LONG - 1);
#endif
  OK(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < MANY; i++) {
    from[i] = i;
    OK(MPI_Put(&from[i], 1, MPI_INT, (me + i) % n, LONG + i, 1, MPI_INT, win));
  }
  for (int i = 0; i < MANY; i++) OK(MPI_Get(&into[i], 1, MPI_INT, (me + i) % n, i, 1, MPI_INT, win));
  OK(MPI_Win_unlock_all(win));
  for (int i = 0; i < MANY; i++) CHECK(into[i] == (((me + i) % n + n - 1) % n) * 31 + i);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < MANY; i++) CHECK(part[LONG + i] == i);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  end(allocated, part, &win);
  free(from), free(into);
}

/* Some of each kind of number and operation: with values and places, on bits, on doubles. */
static void operations(int allocated) {
  struct { double value; int place; } least = {100.0 - me, me}, *pairs;
  uint64_t bit = UINT64_C(1) << me;
  double half = 0.5;
  int *part;
  char *bytes;
  MPI_Win win = over(allocated, 16, &part);
  bytes = (char *)part;
  pairs = (void *)part;
  pairs->value = 1e9, pairs->place = -1;
  OK(MPI_Win_fence(0, win));
  OK(MPI_Accumulate(&least, 1, MPI_DOUBLE_INT, 0, 0, 1, MPI_DOUBLE_INT, MPI_MINLOC, win));
  OK(MPI_Accumulate(&bit, 1, MPI_UINT64_T, 0, 4, 1, MPI_UINT64_T, MPI_BOR, win));
  OK(MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, 6, 1, MPI_DOUBLE, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  if (me == 0) {
    uint64_t bits;
    double sum;
    memcpy(&bits, bytes + 16, 8), memcpy(&sum, bytes + 24, 8);
    CHECK(pairs->value == 101.0 - n && pairs->place == n - 1);
    CHECK(bits == (UINT64_C(1) << n) - 1 && sum == n / 2.0);
  }
  end(allocated, part, &win);
}

/* Memory of a node in one piece, read and written by all ranks on the node. */
static void shared(void) {
  MPI_Comm node;
  MPI_Win win;
  MPI_Aint bytes;
  MPI_Info apart;
  int here, count, unit, *mine, *first, *other, *expected;
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  OK(MPI_Comm_rank(node, &here));
  OK(MPI_Comm_size(node, &count));
  OK(MPI_Win_allocate_shared((here + 1) * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &win));
  OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
  CHECK(bytes == sizeof(int) && unit == sizeof(int));
  OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
  for (int i = 0; i <= here; i++) mine[i] = here * 100 + i;
  OK(MPI_Win_sync(win));
  OK(MPI_Barrier(node));
  OK(MPI_Win_sync(win));
  expected = first;
  for (int r = 0; r < count; r++) {
    OK(MPI_Win_shared_query(win, r, &bytes, &unit, &other));
    CHECK(bytes == (r + 1) * (MPI_Aint)sizeof(int) && other == expected);
    for (int i = 0; i <= r; i++) CHECK(other[i] == r * 100 + i);
    expected += r + 1;
  }
  OK(MPI_Barrier(node));
  int one = 1;
  for (int i = 0; i < 1000; i++) OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(node));
  CHECK(first[0] == 1000 * count);
  OK(MPI_Barrier(node));
  /* One rank waits for a word that the other writes, as programs with shared memory do. */
  volatile int *word = first;
  OK(MPI_Win_lock_all(0, win));
  if (here == count - 1) *word = -5;
  while (*word != -5) OK(MPI_Win_sync(win));
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_free(&win));
  OK(MPI_Info_create(&apart));
  OK(MPI_Info_set(apart, "alloc_shared_noncontig", "true"));
  OK(MPI_Win_allocate_shared(here == 0 ? 0 : 24, 8, apart, node, &mine, &win));
  OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
  CHECK(count > 1 ? bytes == 24 && (uintptr_t)first % 8 == 0 : bytes == 0);
  OK(MPI_Info_free(&apart));
  OK(MPI_Win_free(&win));
  OK(MPI_Comm_free(&node));
}

/* Memory that is attached later, and addressed by its address. */
static void dynamic(void) {
  double here[4] = {me, me, me, me}, got = -1;
  MPI_Aint mine, *all = malloc(n * sizeof(MPI_Aint));
  MPI_Win win;
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_attach(win, here, sizeof(here)));
  OK(MPI_Get_address(here, &mine));
  OK(MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win));
  double value = 0.25 + me;
  OK(MPI_Put(&value, 1, MPI_DOUBLE, right, MPI_Aint_add(all[right], sizeof(double)), 1, MPI_DOUBLE, win));
  OK(MPI_Win_flush(right, win));
  OK(MPI_Get(&got, 1, MPI_DOUBLE, right, all[right] + sizeof(double), 1, MPI_DOUBLE, win));
  OK(MPI_Win_unlock(right, win));
  CHECK(got == value);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  CHECK(here[1] == 0.25 + left && here[0] == me && here[2] == me);
  OK(MPI_Win_detach(win, here));
  /* Data in two stretches that touch was once refused. */
  double both[2] = {me, me};
  OK(MPI_Win_attach(win, here + 2, 2 * sizeof(double)));
  OK(MPI_Win_attach(win, here, 2 * sizeof(double)));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  OK(MPI_Put(both, 2, MPI_DOUBLE, right, all[right] + sizeof(double), 2, MPI_DOUBLE, win));
  OK(MPI_Win_unlock(right, win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  CHECK(here[0] == me && here[1] == left && here[2] == left && here[3] == me);
  OK(MPI_Win_free(&win));
  free(all);
}

static int deleted_;

static int deletes(MPI_Win win, int keyval, void *value, void *state) {
  (void)win, (void)keyval, (void)state;
  deleted_ += *(int *)value;
  return MPI_SUCCESS;
}

static void hung_on_it(void) {
  int *part, keyval, flag, length, value = 5, *unit, *flavor, *model, *hung;
  MPI_Aint *bytes;
  void *base;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Info info;
  MPI_Win win = over(0, 3, &part), other = over(1, 2, &hung);
  OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
  CHECK(flag && base == part);
  OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag));
  CHECK(flag && *bytes == 3 * sizeof(int));
  OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag));
  CHECK(flag && *unit == sizeof(int));
  OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
  CHECK(flag && *flavor == MPI_WIN_FLAVOR_CREATE);
  OK(MPI_Win_get_attr(other, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
  CHECK(flag && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
  OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
  CHECK(flag && *model == MPI_WIN_UNIFIED);
  OK(MPI_Win_set_name(win, "mine"));
  OK(MPI_Win_get_name(win, name, &length));
  CHECK(!strcmp(name, "mine") && length == 4);
  OK(MPI_Win_set_info(win, MPI_INFO_NULL));
  OK(MPI_Win_get_info(win, &info));
  OK(MPI_Info_get(info, "no_locks", MPI_MAX_OBJECT_NAME - 1, name, &flag));
  CHECK(flag && !strcmp(name, "false"));
  OK(MPI_Info_free(&info));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deletes, &keyval, NULL));
  OK(MPI_Win_set_attr(win, keyval, &value));
  OK(MPI_Win_get_attr(win, keyval, &hung, &flag));
  CHECK(flag && hung == &value);
  OK(MPI_Win_free_keyval(&keyval));
  end(0, part, &win);
  CHECK(deleted_ == 5);
  OK(MPI_Win_free(&other));
}

/* A window over three members, so that one node has more members than another. */
static void uneven(void) {
  MPI_Comm some;
  OK(MPI_Comm_split(MPI_COMM_WORLD, me < 3 ? 0 : MPI_UNDEFINED, 0, &some));
  if (some == MPI_COMM_NULL) return;
  int size, one = 1, *part;
  MPI_Win win;
  OK(MPI_Comm_size(some, &size));
  OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, some, &part, &win));
  OK(MPI_Win_fence(0, win));
  for (int to = 0; to < size; to++) {
    OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Put(&one, 0, MPI_INT, to, 9, 0, MPI_INT, win));
  }
  OK(MPI_Win_fence(0, win));
  CHECK(*part == size);
  OK(MPI_Win_free(&win));
  OK(MPI_Comm_free(&some));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  me = rank_, n = size_, left = (me + n - 1) % n, right = (me + 1) % n;
  for (int allocated = 0; allocated < 2; allocated++) {
    fences(allocated);
    derived(allocated);
    posted(allocated);
    locks(allocated);
    requests(allocated);
    operations(allocated);
  }
  uneven();
  shared();
  dynamic();
  hung_on_it();
  return MPI_Finalize();
}
