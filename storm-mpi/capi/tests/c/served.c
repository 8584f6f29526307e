/* Regressions of one-sided communication: owners that served nobody, and data that did not
 * arrive. */
#include "check.h"

enum { STORES = 200, ROUNDS = 20, MANY = 500 };

static int me, n, last;

/* A window over memory of the program, which other ranks reach by messages. */
static MPI_Win over(int count, int **base) {
  MPI_Win win;
  *base = calloc(count, sizeof(int));
  OK(MPI_Win_create(*base, count * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  return win;
}

static int flushed(int way, MPI_Win win) {
  switch (way) {
    case 0: return MPI_Win_flush(me, win);
    case 1: return MPI_Win_flush_all(win);
    case 2: return MPI_Win_flush_local(me, win);
    default: return MPI_Win_flush_local_all(win);
  }
}

/* A flush with nothing outstanding once served nobody, so this loop never ended. */
static void a_flush_serves(void) {
  int *part;
  MPI_Win win = over(4, &part);
  OK(MPI_Win_lock_all(0, win));
  for (int way = 0; way < 4; way++) {
    int value = 0, one = 1;
    if (me == last) {
      OK(MPI_Put(&one, 1, MPI_INT, 0, way, 1, MPI_INT, win));
      OK(MPI_Win_flush(0, win));
    }
    while (me == 0 && value != 1) {
      OK(MPI_Fetch_and_op(NULL, &value, MPI_INT, 0, way, MPI_NO_OP, win));
      OK(flushed(way, win));
    }
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_free(&win));
  free(part);
}

/* Two ranks put, flush, and look at their own parts. At least one of them must find something. */
static void a_flush_is_a_fence(void) {
  int *part, *seen = calloc(STORES, sizeof(int)), one = 1;
  MPI_Win win;
  OK(MPI_Win_allocate(STORES * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock_all(0, win));
  for (int i = 0; i < STORES && n > 1 && me < 2; i++) {
    OK(MPI_Put(&one, 1, MPI_INT, 1 - me, i, 1, MPI_INT, win));
    OK(MPI_Win_flush(1 - me, win));
    OK(MPI_Get(&seen[i], 1, MPI_INT, me, i, 1, MPI_INT, win));
    OK(MPI_Win_flush(me, win));
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Allreduce(MPI_IN_PLACE, seen, STORES, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  for (int i = 0; i < STORES && n > 1; i++) CHECK(seen[i] > 0);
  OK(MPI_Win_free(&win));
  free(seen);
}

/* A transfer of less than there was room for was once refused. */
static void what_fits_is_moved(int allocated) {
  int *part, mine[3] = {7, 8, 9}, got[5] = {-1, -1, -1, -1, -1}, right = (me + 1) % n;
  MPI_Datatype third;
  MPI_Win win;
  if (allocated) {
    OK(MPI_Win_allocate(12 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &part, &win));
    memset(part, 0, 12 * sizeof(int));
  } else {
    win = over(12, &part);
  }
  OK(MPI_Type_vector(4, 1, 3, MPI_INT, &third));
  OK(MPI_Type_commit(&third));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(mine, 3, MPI_INT, right, 0, 1, third, win));
  OK(MPI_Win_fence(0, win));
  CHECK(part[0] == 7 && part[3] == 8 && part[6] == 9 && part[9] == 0 && part[1] == 0);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Accumulate(mine, 2, MPI_INT, right, 0, 1, third, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  CHECK(part[0] == 14 && part[3] == 16 && part[6] == 9);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Get(got, 5, MPI_INT, right, 0, 1, third, win));
  OK(MPI_Win_fence(0, win));
  CHECK(got[0] == 14 && got[1] == 16 && got[2] == 9 && got[3] == 0 && got[4] == -1);
  got[3] = -1;
  OK(MPI_Get_accumulate(NULL, 0, MPI_INT, got, 5, MPI_INT, right, 3, 3, MPI_INT, MPI_NO_OP, win));
  OK(MPI_Put(mine, 0, MPI_INT, right, 1, 1, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  CHECK(got[0] == 16 && got[1] == 0 && got[2] == 0 && got[3] == -1 && part[1] == 0);
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  CHECK(MPI_Put(mine, 3, MPI_INT, right, 0, 2, MPI_INT, win) == MPI_ERR_ARG);
  CHECK(MPI_Accumulate(mine, 3, MPI_INT, right, 0, 2, MPI_INT, MPI_SUM, win) == MPI_ERR_ARG);
  CHECK(MPI_Accumulate(mine, 3, MPI_CHAR, right, 0, 1, MPI_INT, MPI_SUM, win) == MPI_ERR_TYPE);
  CHECK(MPI_Get(got, 1, MPI_INT, right, 0, 2, MPI_INT, win) == MPI_ERR_ARG);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Type_free(&third));
  OK(MPI_Win_free(&win));
  if (!allocated) free(part);
}

/* Data of MPI_Rget for a type with gaps once arrived only in MPI_Wait, whatever was flushed or
 * unlocked. */
static void a_flush_brings_what_was_requested(void) {
  enum { EACH = 5 };
  int *part, got[4][2 * EACH], more[MANY], right = (me + 1) % n;
  MPI_Datatype every_other;
  MPI_Request requests[4], many[MANY];
  MPI_Win win = over(EACH, &part);
  for (int i = 0; i < EACH; i++) part[i] = 10 * me + i;
  memset(got, -1, sizeof(got));
  OK(MPI_Type_vector(EACH, 1, 2, MPI_INT, &every_other));
  OK(MPI_Type_commit(&every_other));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
  OK(MPI_Rget(got[0], 1, every_other, right, 0, EACH, MPI_INT, win, &requests[0]));
  OK(MPI_Rget_accumulate(NULL, 0, MPI_INT, got[1], 1, every_other, right, 0, EACH, MPI_INT, MPI_NO_OP, win, &requests[1]));
  OK(MPI_Win_flush(right, win));
  for (int i = 0; i < EACH; i++) CHECK(got[0][2 * i] == 10 * right + i && got[1][2 * i] == 10 * right + i);
  CHECK(got[0][1] == -1);
  OK(MPI_Rget(got[2], 1, every_other, right, 0, EACH, MPI_INT, win, &requests[2]));
  OK(MPI_Rget(got[3], 1, every_other, right, 0, EACH, MPI_INT, win, &requests[3]));
  OK(MPI_Request_free(&requests[3]));
  for (int i = 0; i < MANY; i++) {
    OK(MPI_Rget(&more[i], 1, MPI_INT, right, i % EACH, 1, MPI_INT, win, &many[i]));
    if (i % 3 == 0) OK(MPI_Wait(&many[i], MPI_STATUS_IGNORE));
  }
  OK(MPI_Win_unlock(right, win));
  for (int i = 0; i < EACH; i++) CHECK(got[2][2 * i] == 10 * right + i && got[3][2 * i] == 10 * right + i);
  for (int i = 0; i < MANY; i++) CHECK(more[i] == 10 * right + i % EACH);
  got[2][0] = -5;
  OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
  OK(MPI_Waitall(MANY, many, MPI_STATUSES_IGNORE));
  CHECK(got[2][0] == -5);
  OK(MPI_Type_free(&every_other));
  OK(MPI_Win_free(&win));
  free(part);
}

/* A rank in MPI_Finalize with a window that it had not freed once served nobody, and others
 * waited for its lock. */
static int it_serves_to_the_end(void) {
  int *part, one = 1;
  MPI_Win win = over(1, &part);
  for (int i = 0; me != 0 && i < ROUNDS; i++) {
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_unlock(0, win));
  }
  OK(MPI_Finalize());
  int is_right = me != 0 || *part == ROUNDS * (n - 1);
  free(part);
  return is_right ? 0 : 1;
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  me = rank_, n = size_, last = n - 1;
  a_flush_serves();
  a_flush_is_a_fence();
  what_fits_is_moved(0);
  what_fits_is_moved(1);
  a_flush_brings_what_was_requested();
  return it_serves_to_the_end();
}
