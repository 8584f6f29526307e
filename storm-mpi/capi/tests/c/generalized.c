/* Requests for work that the program itself does. */
#include "check.h"
#include <pthread.h>

enum { WORDS = 3 };

/* The library's calls for one piece of work. */
struct work {
  int asked, freed, cancelled, was_complete, fails;
};

static int query(void *state, MPI_Status *status) {
  struct work *w = state;
  CHECK(!w->freed);
  w->asked++;
  OK(MPI_Status_set_elements(status, MPI_INT, WORDS));
  OK(MPI_Status_set_cancelled(status, w->cancelled));
  status->MPI_SOURCE = 7, status->MPI_TAG = 8;
  return w->fails ? MPI_ERR_IO : MPI_SUCCESS;
}

static int forget(void *state) {
  struct work *w = state;
  w->freed++;
  return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
  struct work *w = state;
  w->cancelled++, w->was_complete = complete;
  return MPI_SUCCESS;
}

static MPI_Request begun(struct work *w) {
  MPI_Request request;
  memset(w, 0, sizeof *w);
  OK(MPI_Grequest_start(query, forget, cancel, w, &request));
  CHECK(request != MPI_REQUEST_NULL);
  return request;
}

static void hold(const MPI_Status *status, int cancelled) {
  int words, flag;
  OK(MPI_Get_count(status, MPI_INT, &words));
  OK(MPI_Test_cancelled(status, &flag));
  CHECK(words == WORDS && flag == cancelled && status->MPI_SOURCE == 7 && status->MPI_TAG == 8);
}

static void one(void) {
  struct work w;
  MPI_Status status;
  int flag;
  MPI_Request r = begun(&w);
  OK(MPI_Test(&r, &flag, &status));
  CHECK(!flag && r != MPI_REQUEST_NULL);
  OK(MPI_Request_get_status(r, &flag, &status));
  CHECK(!flag && !w.asked);
  OK(MPI_Grequest_complete(r));
  CHECK(!w.asked && !w.freed);
  OK(MPI_Request_get_status(r, &flag, &status));
  CHECK(flag && w.asked == 1 && !w.freed);
  hold(&status, 0);
  OK(MPI_Wait(&r, &status));
  CHECK(r == MPI_REQUEST_NULL && w.asked == 2 && w.freed == 1);
  hold(&status, 0);
}

/* Such requests among messages, with each way to wait for several. */
static void among_others(void) {
  struct work w[2];
  int got = -1, from = (rank_ + size_ - 1) % size_, at, n, which[3], flag;
  MPI_Status statuses[3];
  MPI_Request r[3] = {begun(&w[0]), MPI_REQUEST_NULL, begun(&w[1])}, sent;
  OK(MPI_Irecv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &r[1]));
  OK(MPI_Isend(&rank_, 1, MPI_INT, (rank_ + 1) % size_, 0, MPI_COMM_WORLD, &sent));
  OK(MPI_Waitany(3, r, &at, statuses));
  CHECK(at == 1 && got == from && !w[0].asked);
  OK(MPI_Testany(3, r, &at, &flag, statuses));
  CHECK(!flag && at == MPI_UNDEFINED);
  OK(MPI_Grequest_complete(r[2]));
  OK(MPI_Waitsome(3, r, &n, which, statuses));
  CHECK(n == 1 && which[0] == 2 && w[1].freed == 1 && !w[0].asked);
  hold(&statuses[0], 0);
  r[2] = begun(&w[1]);
  OK(MPI_Irecv(&got, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[1]));
  OK(MPI_Testall(3, r, &flag, statuses));
  CHECK(!flag);
  OK(MPI_Grequest_complete(r[0]));
  OK(MPI_Grequest_complete(r[2]));
  OK(MPI_Waitall(3, r, statuses));
  CHECK(w[0].freed == 1 && w[1].freed == 1);
  hold(&statuses[0], 0), hold(&statuses[2], 0);
  OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
}

/* Requests that are freed before the work is over and after, and cancelled before and after. */
static void given_up(void) {
  struct work w;
  MPI_Status status;
  MPI_Request r = begun(&w), kept = r;
  OK(MPI_Request_free(&r));
  CHECK(r == MPI_REQUEST_NULL && !w.freed);
  OK(MPI_Grequest_complete(kept));
  CHECK(w.freed == 1 && !w.asked);
  r = begun(&w);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Request_free(&r));
  CHECK(r == MPI_REQUEST_NULL && w.freed == 1 && !w.asked);
  r = begun(&w);
  OK(MPI_Cancel(&r));
  CHECK(w.cancelled == 1 && !w.was_complete);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Cancel(&r));
  CHECK(w.cancelled == 2 && w.was_complete);
  w.cancelled = 1;
  OK(MPI_Wait(&r, &status));
  hold(&status, 1);
}

static int class_of(int code) {
  int class;
  OK(MPI_Error_class(code, &class));
  return class;
}

static void refused(void) {
  struct work w[2];
  MPI_Status statuses[2];
  MPI_Request r[2], message;
  int got;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (int several = 0; several < 2; several++) {
    for (int i = 0; i < 2; i++) {
      r[i] = begun(&w[i]);
      OK(MPI_Grequest_complete(r[i]));
    }
    w[1].fails = 1;
    if (several) {
      CHECK(class_of(MPI_Waitall(2, r, statuses)) == MPI_ERR_IN_STATUS);
      CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && class_of(statuses[1].MPI_ERROR) == MPI_ERR_IO);
    } else {
      OK(MPI_Wait(&r[0], &statuses[0]));
      CHECK(class_of(MPI_Wait(&r[1], &statuses[1])) == MPI_ERR_IO);
    }
    hold(&statuses[1], 0);
    CHECK(w[0].freed == 1 && w[1].freed == 1 && r[1] == MPI_REQUEST_NULL);
  }
  OK(MPI_Irecv(&got, 1, MPI_INT, rank_, 5, MPI_COMM_WORLD, &message));
  CHECK(class_of(MPI_Grequest_complete(message)) == MPI_ERR_REQUEST);
  OK(MPI_Cancel(&message));
  OK(MPI_Wait(&message, MPI_STATUS_IGNORE));
  r[0] = begun(&w[0]);
  OK(MPI_Grequest_complete(r[0]));
  CHECK(class_of(MPI_Grequest_complete(r[0])) == MPI_ERR_REQUEST);
  OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
  CHECK(class_of(MPI_Grequest_complete(MPI_REQUEST_NULL)) == MPI_ERR_REQUEST);
  CHECK(class_of(MPI_Grequest_start(query, NULL, cancel, &w[0], &r[0])) == MPI_ERR_ARG);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* Does the work when a message has come. */
static void *work_off(void *request) {
  int word;
  OK(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  OK(MPI_Grequest_complete(*(MPI_Request *)request));
  return NULL;
}

/* One thread waits for the work of another. */
static void by_another_thread(void) {
  for (int lap = 0; lap < 50; lap++) {
    struct work w;
    pthread_t thread;
    MPI_Request r = begun(&w), known = r;
    MPI_Status status;
    CHECK(pthread_create(&thread, NULL, work_off, &known) == 0);
    OK(MPI_Send(&lap, 1, MPI_INT, (rank_ + 1) % size_, 9, MPI_COMM_WORLD));
    OK(MPI_Wait(&r, &status));
    hold(&status, 0);
    CHECK(pthread_join(thread, NULL) == 0 && w.freed == 1);
  }
}

int main(int argc, char **argv) {
  int provided;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  one();
  among_others();
  given_up();
  refused();
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (provided == MPI_THREAD_MULTIPLE) by_another_thread();
  return MPI_Finalize();
}
