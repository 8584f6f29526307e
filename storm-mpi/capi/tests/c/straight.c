/* Short messages by all ways of a call: from any source, posted before they come and waited for
 * in any order, between long and synchronous ones. In every way, each source's messages come in
 * order, and the oldest receive that accepts a message gets it. */
#include "check.h"

enum { TIMES = 400, LONGEST = 20000 };

static char *data_;

/* Every length that has a way of its own. */
static int length_of(int source, int number) {
  static const int lengths[] = {4, 0, 24, 25, 100, 5, 1024, 4096, 4097, 8, 12000, 16384, 16400, 4};
  return lengths[(source + number) % 14] + 4;
}

static void fill(int source, int number) {
  int length = length_of(source, number);
  memset(data_, source + 3 * number, length);
  memcpy(data_, &number, sizeof number);
}

static void is_that(int source, int number, const MPI_Status *status) {
  int length = length_of(source, number), count = -1, came;
  OK(MPI_Get_count(status, MPI_BYTE, &count));
  CHECK(count == length && status->MPI_TAG == number % 5);
  memcpy(&came, data_, sizeof came);
  CHECK(came == number);
  for (int i = sizeof came; i < length; i++) CHECK(data_[i] == (char)(source + 3 * number));
}

/* All ranks send to rank 0, which receives in one of several ways. */
static void many_to_one(void) {
  MPI_Request request;
  MPI_Status status;
  if (rank_ > 0) {
    for (int i = 0; i < TIMES; i++) {
      fill(rank_, i);
      int length = length_of(rank_, i), tag = i % 5;
      if (i % 7 == 3) {
        OK(MPI_Ssend(data_, length, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
      } else if (i % 3 == 0) {
        OK(MPI_Isend(data_, length, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      } else {
        OK(MPI_Send(data_, length, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
      }
    }
    return;
  }
  int *next = calloc(size_, sizeof(int));
  for (int left = (size_ - 1) * TIMES; left > 0; left--) {
    int source = MPI_ANY_SOURCE;
    if (left % 5 == 2)
      for (int r = 1; r < size_; r++)
        if (next[r] < TIMES) source = r;
    int tag = source == MPI_ANY_SOURCE ? MPI_ANY_TAG : next[source] % 5;
    if (left % 4 < 2) {
      OK(MPI_Recv(data_, LONGEST, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status));
    } else {
      OK(MPI_Irecv(data_, LONGEST, MPI_BYTE, source, tag, MPI_COMM_WORLD, &request));
      OK(MPI_Wait(&request, &status));
    }
    CHECK(source == MPI_ANY_SOURCE || source == status.MPI_SOURCE);
    is_that(status.MPI_SOURCE, next[status.MPI_SOURCE]++, &status);
  }
  free(next);
}

/* Receives that accept the same messages, waited for in another order than they were posted in. */
static void posted(int mine, int other) {
  for (int round = 0; round < 6 * TIMES; round++) {
    int values[4] = {-1, -1, -1, -1}, token = round;
    int source = round & 1 ? other : MPI_ANY_SOURCE, tag = round & 2 ? 7 : MPI_ANY_TAG;
    MPI_Request requests[4];
    MPI_Status status;
    if (mine == 0) {
      OK(MPI_Recv(&token, 1, MPI_INT, other, 8, MPI_COMM_WORLD, &status));
      for (int i = 0; i < 4; i++) {
        values[i] = 10 * round + i;
        OK(MPI_Isend(&values[i], 1, MPI_INT, other, 7, MPI_COMM_WORLD, &requests[i]));
      }
      OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
      continue;
    }
    for (int i = 0; i < 3; i++)
      OK(MPI_Irecv(&values[i], 1, MPI_INT, source, tag, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Send(&token, 1, MPI_INT, other, 8, MPI_COMM_WORLD));
    /* A later receive gets the later message. */
    if (round % 3 == 0) OK(MPI_Recv(&values[3], 1, MPI_INT, other, 7, MPI_COMM_WORLD, &status));
    for (int i = 0; i < 3; i++) {
      int at = (i + round) % 3;
      OK(MPI_Wait(&requests[at], &status));
      CHECK(requests[at] == MPI_REQUEST_NULL && status.MPI_SOURCE == other && status.MPI_TAG == 7);
      CHECK(values[at] == 10 * round + at);
    }
    if (round % 3 != 0) OK(MPI_Recv(&values[3], 1, MPI_INT, other, 7, MPI_COMM_WORLD, &status));
    CHECK(values[3] == 10 * round + 3);
  }
}

/* Both ways at once around a ring, with every length. */
static void around(void) {
  int right = (rank_ + 1) % size_, left = (rank_ + size_ - 1) % size_;
  char *out = malloc(LONGEST);
  for (int i = 0; i < TIMES; i++) {
    MPI_Status status;
    int length = length_of(rank_, i);
    fill(rank_, i);
    memcpy(out, data_, length);
    OK(MPI_Sendrecv(out, length, MPI_BYTE, right, i % 5, data_, LONGEST, MPI_BYTE,
                    i % 2 ? left : MPI_ANY_SOURCE, i % 5, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == left);
    is_that(left, i, &status);
  }
  free(out);
}

/* A message that is too long is cut, and the status tells it, in every way. */
static void cut(int mine, int other) {
  int two[2] = {mine, mine}, in[2] = {-1, -1}, class;
  MPI_Request request;
  MPI_Status status;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (int way = 0; way < 3; way++) {
    int code;
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, other, 1, NULL, 0, MPI_INT, other, 1, MPI_COMM_WORLD, &status));
    if (way == 2) {
      code = MPI_Sendrecv(two, 2, MPI_INT, other, 2, in, 1, MPI_INT, MPI_ANY_SOURCE, 2,
                          MPI_COMM_WORLD, &status);
    } else {
      OK(MPI_Irecv(in, 1, MPI_INT, way ? other : MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request));
      OK(MPI_Send(two, 2, MPI_INT, other, 2, MPI_COMM_WORLD));
      code = MPI_Wait(&request, &status);
    }
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_TRUNCATE && in[0] == other && in[1] == -1);
  }
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  data_ = malloc(LONGEST);
  many_to_one();
  OK(MPI_Barrier(MPI_COMM_WORLD));
  /* Pairs of neighbours. A rank without a neighbour is done. */
  int other = rank_ ^ 1;
  if (other < size_) posted(rank_ & 1, other), cut(rank_, other);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  around();
  free(data_);
  return MPI_Finalize();
}
