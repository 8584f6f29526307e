/* Threads that communicate all at once (MPI_THREAD_MULTIPLE). */
#include "check.h"
#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define ROUNDS 60
#define LONG_WORDS 40000

typedef void (*Part)(int thread);

static Part part_;
static MPI_Comm comms_[THREADS];

static void *run(void *thread) {
  part_((int)(long)thread);
  return NULL;
}

/* Runs the same part in all threads, including this one. */
static void in_threads(Part part) {
  pthread_t others[THREADS];
  part_ = part;
  for (long t = 1; t < THREADS; t++) CHECK(pthread_create(&others[t], NULL, run, (void *)t) == 0);
  part(0);
  for (int t = 1; t < THREADS; t++) CHECK(pthread_join(others[t], NULL) == 0);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void levels(int thread) {
  int provided, is_main;
  OK(MPI_Query_thread(&provided));
  CHECK(provided == MPI_THREAD_MULTIPLE);
  OK(MPI_Is_thread_main(&is_main));
  CHECK(is_main == (thread == 0));
}

/* A thread waits for a message of another thread of its own process. */
static void to_oneself(int thread) {
  int with = thread ^ 1, got = -1, flag;
  for (int i = 0; i < ROUNDS; i++) {
    if (thread % 2 == 0) {
      OK(MPI_Recv(&got, 1, MPI_INT, rank_, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      CHECK(got == i);
      OK(MPI_Ssend(&got, 1, MPI_INT, rank_, with, MPI_COMM_WORLD));
    } else {
      MPI_Request request;
      OK(MPI_Isend(&i, 1, MPI_INT, rank_, with, MPI_COMM_WORLD, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Irecv(&got, 1, MPI_INT, rank_, thread, MPI_COMM_WORLD, &request));
      for (flag = 0; !flag; sched_yield()) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
      CHECK(got == i);
    }
  }
}

/* Each thread passes on the messages of its counterpart on the previous rank: short ones and
 * long ones. */
static void around(int thread) {
  int to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
  int *words = malloc(LONG_WORDS * sizeof *words);
  for (int i = 0; i < ROUNDS; i++) {
    int count = i % 20 == 7 ? LONG_WORDS : 1 + i % 3;
    for (int w = 0; w < count; w++) words[w] = rank_ + i + w + thread;
    if (rank_ % 2 == 0) {
      MPI_Request request;
      int *got = malloc(count * sizeof *got);
      OK(MPI_Irecv(got, count, MPI_INT, from, thread, MPI_COMM_WORLD, &request));
      OK(MPI_Send(words, count, MPI_INT, to, thread, MPI_COMM_WORLD));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      for (int w = 0; w < count; w++) CHECK(got[w] == from + i + w + thread);
      free(got);
    } else {
      MPI_Status status;
      int *mine = malloc(count * sizeof *mine);
      memcpy(mine, words, count * sizeof *mine);
      OK(MPI_Sendrecv(mine, count, MPI_INT, to, thread, words, count, MPI_INT, MPI_ANY_SOURCE,
                      thread, MPI_COMM_WORLD, &status));
      CHECK(status.MPI_SOURCE == from && status.MPI_TAG == thread);
      for (int w = 0; w < count; w++) CHECK(words[w] == from + i + w + thread);
      free(mine);
    }
  }
  free(words);
}

/* Requests of one message each. Different threads wait for them, in another order than they are
 * served. */
static MPI_Request requests_[THREADS];
static int places_[THREADS];

static void waits(int thread) {
  int from = (rank_ + size_ - 1) % size_, to = (rank_ + 1) % size_, index;
  if (thread == 0) {
    for (int t = THREADS - 1; t > 0; t--) {
      OK(MPI_Send(&t, 1, MPI_INT, to, 100 + t, MPI_COMM_WORLD));
    }
    OK(MPI_Recv(&index, 1, MPI_INT, from, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else if (thread == 1) {
    OK(MPI_Waitany(1, &requests_[1], &index, MPI_STATUS_IGNORE));
    CHECK(index == 0 && places_[1] == 1);
    OK(MPI_Send(&thread, 1, MPI_INT, to, 99, MPI_COMM_WORLD));
  } else {
    OK(MPI_Waitall(1, &requests_[thread], MPI_STATUSES_IGNORE));
    CHECK(places_[thread] == thread);
  }
}

static void several_waits(void) {
  int from = (rank_ + size_ - 1) % size_;
  for (int i = 0; i < ROUNDS / 20; i++) {
    for (int t = 1; t < THREADS; t++) {
      OK(MPI_Irecv(&places_[t], 1, MPI_INT, from, 100 + t, MPI_COMM_WORLD, &requests_[t]));
    }
    in_threads(waits);
  }
}

/* A thread waits for a message that never comes, until another thread takes the request back: a
 * receive, a persistent one, and a send. */
static MPI_Request never_[THREADS];

static void taken_back(int thread) {
  int with = thread ^ 1, got = -1, flag;
  MPI_Status status;
  for (int i = 0; i < ROUNDS / 4; i++) {
    if (thread % 2 == 1) {
      MPI_Request request;
      OK(MPI_Recv(&got, 1, MPI_INT, rank_, 400 + thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      request = never_[with];
      for (int look = 0; look < ROUNDS; look++, sched_yield()) {
        OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
      }
      OK(MPI_Cancel(&request));
      OK(MPI_Recv(&got, 1, MPI_INT, rank_, 400 + thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      continue;
    }
    if (thread == 2) {
      OK(MPI_Recv_init(&got, 1, MPI_INT, rank_, 410, MPI_COMM_WORLD, &never_[thread]));
      OK(MPI_Start(&never_[thread]));
    } else if (i % 2 == 0) {
      OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 411, MPI_COMM_WORLD, &never_[thread]));
    } else {
      OK(MPI_Issend(&i, 1, MPI_INT, (rank_ + 1) % size_, 412, MPI_COMM_WORLD, &never_[thread]));
    }
    OK(MPI_Send(&i, 1, MPI_INT, rank_, 400 + with, MPI_COMM_WORLD));
    OK(MPI_Wait(&never_[thread], &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag && got == -1);
    if (thread == 2) OK(MPI_Request_free(&never_[thread]));
    CHECK(never_[thread] == MPI_REQUEST_NULL);
    OK(MPI_Send(&i, 1, MPI_INT, rank_, 400 + with, MPI_COMM_WORLD));
  }
}

/* Each thread has a communicator of its own, and makes others of it at any time. */
static void collectives(int thread) {
  MPI_Comm comm = comms_[thread], again, half;
  for (int i = 0; i < ROUNDS / 10; i++) {
    int sum = 0, one = 1 + thread, told = rank_ == i % size_ ? i + thread : -1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == size_ * (1 + thread));
    OK(MPI_Bcast(&told, 1, MPI_INT, i % size_, comm));
    CHECK(told == i + thread);
    OK(MPI_Barrier(comm));
    if (i % 5 == 0) {
      MPI_Request request;
      OK(MPI_Comm_dup(comm, &again));
      OK(MPI_Comm_split(again, (rank_ + i) % 2 ? 1 : MPI_UNDEFINED, rank_, &half));
      OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      CHECK(sum == size_ * (1 + thread));
      if (half != MPI_COMM_NULL) {
        int there;
        OK(MPI_Comm_size(half, &there));
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half));
        CHECK(sum == there * (1 + thread));
        OK(MPI_Comm_free(&half));
      }
      OK(MPI_Comm_free(&again));
      OK(MPI_Comm_idup(comm, &again, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Barrier(again));
      OK(MPI_Comm_free(&again));
    }
  }
}

/* Any thread takes any message that was probed: each message comes to only one thread. */
static pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
static long taken_;

static void probes(int thread) {
  int to = (rank_ + 1) % size_;
  for (int i = 0; i < ROUNDS; i++) {
    int value = 1 + i + thread * ROUNDS, got;
    MPI_Message message;
    MPI_Status status;
    OK(MPI_Send(&value, 1, MPI_INT, to, 7, MPI_COMM_WORLD));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &message, &status));
    OK(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    pthread_mutex_lock(&lock_);
    taken_ += got;
    pthread_mutex_unlock(&lock_);
  }
}

/* Communicators of groups and between groups, separated by their tags. */
static void groups(int thread) {
  MPI_Group all, odd;
  MPI_Comm made, side, between;
  int ranks[64], count = 0;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
  for (int r = size_ - 1; r >= 0; r--) ranks[count++] = r;
  OK(MPI_Group_incl(all, count, ranks, &odd));
  for (int i = 0; i < 5; i++) {
    int sum = 0, here, there;
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, odd, thread, &made));
    OK(MPI_Comm_rank(made, &here));
    CHECK(here == size_ - 1 - rank_);
    OK(MPI_Allreduce(&thread, &sum, 1, MPI_INT, MPI_SUM, made));
    CHECK(sum == size_ * thread);
    OK(MPI_Comm_free(&made));
    if (size_ > 1) {
      OK(MPI_Comm_split(comms_[thread], rank_ % 2, rank_, &side));
      OK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, 1 - rank_ % 2, thread, &between));
      OK(MPI_Comm_remote_size(between, &there));
      OK(MPI_Allreduce(&thread, &sum, 1, MPI_INT, MPI_SUM, between));
      CHECK(sum == there * thread);
      OK(MPI_Intercomm_merge(between, rank_ % 2, &made));
      OK(MPI_Barrier(made));
      OK(MPI_Comm_free(&made));
      OK(MPI_Comm_free(&between));
      OK(MPI_Comm_free(&side));
    }
  }
  OK(MPI_Group_free(&odd));
  OK(MPI_Group_free(&all));
}

/* Windows, each for one thread. */
static void windows(int thread) {
  MPI_Win window;
  int *memory, one = 1, there = -1, next = (rank_ + 1) % size_;
  OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comms_[thread], &memory, &window));
  *memory = 0;
  OK(MPI_Win_fence(0, window));
  for (int i = 0; i < ROUNDS / 20; i++) {
    OK(MPI_Accumulate(&one, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, window));
  }
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
  CHECK(*memory == ROUNDS / 20);
  OK(MPI_Barrier(comms_[thread]));
  for (int i = 0; i < ROUNDS / 20; i++) {
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window));
    OK(MPI_Win_unlock(0, window));
  }
  OK(MPI_Barrier(comms_[thread]));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window));
  OK(MPI_Get(&there, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
  OK(MPI_Win_unlock(0, window));
  CHECK(there == ROUNDS / 20 * (1 + size_));
  OK(MPI_Win_free(&window));
}

/* One window, which all threads use at once. Operations that a thread has flushed are done,
 * whatever other threads have under way. */
static MPI_Win window_;
static int *memory_;

enum { AREA = 2 * LONG_WORDS };

static int value(int rank, int round, int word, int thread) {
  return 1 + rank + 3 * round + word + 1000000 * thread;
}

/* To this thread's counterpart on one rank, and from its counterpart on another. */
static void tell(int thread, int to, int from, int tag, int what) {
  int told = -1;
  OK(MPI_Sendrecv(&what, 1, MPI_INT, to, tag + thread, &told, 1, MPI_INT, from, tag + thread,
                  MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK(told == what);
}

static void one_window(int thread) {
  int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  int *mine = malloc(AREA * sizeof *mine), *here = memory_ + thread * LONG_WORDS;
  MPI_Aint there = thread * LONG_WORDS;
  for (int i = 0; i < ROUNDS / 4; i++) {
    int count = i % THREADS == thread ? LONG_WORDS : 1 + i % 7;
    MPI_Datatype every_second;
    OK(MPI_Type_vector(count, 1, 2, MPI_INT, &every_second));
    OK(MPI_Type_commit(&every_second));
    for (int w = 0; w < count; w++) mine[2 * w] = value(rank_, i, w, thread);
    OK(MPI_Put(mine, 1, every_second, next, there, count, MPI_INT, window_));
    if (i % 2 == 0) OK(MPI_Win_flush(next, window_));
    if (i % 2 == 1) OK(MPI_Win_flush_all(window_));
    tell(thread, next, before, 200, i);
    OK(MPI_Win_sync(window_));
    for (int w = 0; w < count; w++) CHECK(here[w] == value(before, i, w, thread));
    memset(mine, 0, 2 * count * sizeof *mine);
    if (i % 3 < 2) {
      OK(MPI_Get(mine, 1, every_second, next, there, count, MPI_INT, window_));
      OK(i % 3 == 0 ? MPI_Win_flush(next, window_) : MPI_Win_flush_local_all(window_));
    } else {
      MPI_Request request;
      OK(MPI_Rget(mine, 1, every_second, next, there, count, MPI_INT, window_, &request));
      if (i % 2 == 0) OK(MPI_Win_flush(next, window_));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    for (int w = 0; w < count; w++) CHECK(mine[2 * w] == value(rank_, i, w, thread));
    OK(MPI_Type_free(&every_second));
    /* The part may be written again. */
    tell(thread, before, next, 300, i);
  }
  free(mine);
}

static void together_at_one_window(void) {
  MPI_Aint bytes = THREADS * LONG_WORDS * sizeof *memory_;
  memory_ = calloc(1, bytes);
  OK(MPI_Win_create(memory_, bytes, sizeof *memory_, MPI_INFO_NULL, MPI_COMM_WORLD, &window_));
  OK(MPI_Win_lock_all(0, window_));
  in_threads(one_window);
  OK(MPI_Win_unlock_all(window_));
  OK(MPI_Win_free(&window_));
  free(memory_);
}

/* A thread only answers. It waits while other threads of its process, which have no message for
 * it, are at work. */
static void served(int thread) {
  int next = (rank_ + 1) % size_, value;
  if (thread == 0) {
    for (int i = 0; i < ROUNDS * (THREADS - 1); i++) {
      MPI_Status status;
      OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &status));
      OK(MPI_Send(&value, 1, MPI_INT, status.MPI_SOURCE, 20 + value, MPI_COMM_WORLD));
    }
    return;
  }
  for (int i = 0; i < ROUNDS; i++) {
    OK(MPI_Send(&thread, 1, MPI_INT, next, 11, MPI_COMM_WORLD));
    OK(MPI_Recv(&value, 1, MPI_INT, next, 20 + thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(value == thread);
  }
}

/* A mistake affects only its caller. */
static void mistakes(int thread) {
  MPI_Comm comm = comms_[thread];
  char text[2];
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  for (int i = 0; i < ROUNDS / 10; i++) {
    OK(MPI_Send("abc", 4, MPI_CHAR, rank_, thread, comm));
    CHECK(MPI_Recv(text, 2, MPI_CHAR, rank_, thread, comm, MPI_STATUS_IGNORE) == MPI_ERR_TRUNCATE);
    CHECK(MPI_Send(text, 1, MPI_CHAR, size_, thread, comm) == MPI_ERR_RANK);
  }
}

int main(int argc, char **argv) {
  int provided;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  CHECK(provided == MPI_THREAD_MULTIPLE);
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  in_threads(levels);
  in_threads(to_oneself);
  in_threads(around);
  several_waits();
  in_threads(taken_back);
  for (int t = 0; t < THREADS; t++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms_[t]));
  in_threads(collectives);
  in_threads(probes);
  CHECK(taken_ == (long)ROUNDS * THREADS * (ROUNDS * THREADS + 1) / 2);
  in_threads(groups);
  in_threads(windows);
  together_at_one_window();
  in_threads(served);
  in_threads(mistakes);
  for (int t = 0; t < THREADS; t++) OK(MPI_Comm_free(&comms_[t]));
  OK(MPI_Finalize());
  return 0;
}
