/* Threads that take turns (MPI_THREAD_SERIALIZED), and the level that each request gives. With
 * an argument: a thread that may not call. */
#include "check.h"
#include <pthread.h>
#include <sched.h>

#define THREADS 3
#define ROUNDS 10

static pthread_mutex_t turn_ = PTHREAD_MUTEX_INITIALIZER;

static void *takes_turns(void *number) {
  int thread = (int)(long)number, to = (rank_ + 1) % size_, got, is_main;
  OK(MPI_Is_thread_main(&is_main));
  CHECK(is_main == (thread == 0));
  for (int i = 0; i < ROUNDS; i++) {
    /* All ranks are in the same turn. An awaited message comes from ranks that are not waiting. */
    pthread_mutex_lock(&turn_);
    MPI_Request request;
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, thread, MPI_COMM_WORLD, &request));
    OK(MPI_Send(&i, 1, MPI_INT, to, thread, MPI_COMM_WORLD));
    pthread_mutex_unlock(&turn_);
    for (int done = 0; !done; sched_yield()) {
      pthread_mutex_lock(&turn_);
      OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      pthread_mutex_unlock(&turn_);
    }
    CHECK(got == i);
  }
  return NULL;
}

/* A whole round by one thread after the other. */
static void *rounds(void *number) {
  int thread = (int)(long)number, to = (rank_ + 1) % size_, sum, got;
  MPI_Comm comm;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Allreduce(&thread, &sum, 1, MPI_INT, MPI_SUM, comm));
  CHECK(sum == thread * size_);
  OK(MPI_Sendrecv(&thread, 1, MPI_INT, to, 5, &got, 1, MPI_INT, MPI_ANY_SOURCE, 5, comm,
                  MPI_STATUS_IGNORE));
  CHECK(got == thread);
  OK(MPI_Comm_free(&comm));
  return NULL;
}

static void *calls(void *unused) {
  MPI_Barrier(MPI_COMM_WORLD);
  return unused;
}

static void *asks(void *level) {
  int provided, is_main;
  OK(MPI_Query_thread(&provided));
  CHECK(provided == *(int *)level);
  OK(MPI_Is_thread_main(&is_main));
  CHECK(!is_main);
  return NULL;
}

int main(int argc, char **argv) {
  int level = argc > 1 ? atoi(argv[1]) : MPI_THREAD_SERIALIZED, provided;
  pthread_t threads[THREADS];
  OK(MPI_Init_thread(&argc, &argv, level, &provided));
  CHECK(provided == level);
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  CHECK(pthread_create(&threads[0], NULL, asks, &level) == 0);
  CHECK(pthread_join(threads[0], NULL) == 0);
  if (argc > 2) {
    CHECK(pthread_create(&threads[0], NULL, calls, NULL) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
  }
  if (level >= MPI_THREAD_SERIALIZED) {
    for (long t = 1; t < THREADS; t++) {
      CHECK(pthread_create(&threads[t], NULL, takes_turns, (void *)t) == 0);
    }
    takes_turns(NULL);
    for (int t = 1; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
    for (long t = 1; t < THREADS; t++) {
      CHECK(pthread_create(&threads[t], NULL, rounds, (void *)t) == 0);
      CHECK(pthread_join(threads[t], NULL) == 0);
    }
  }
  OK(MPI_Finalize());
  return 0;
}
