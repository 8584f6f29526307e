/* Sends that are taken back. A send either comes back, and its receiver never sees it, or it is
 * received as usual. */
#include "check.h"

enum { SHORT = 4, MIDDLE = 30000, LONG = 1 << 20, KINDS = 3, TAG = 5, AFTER = 6 };

static const int counts[KINDS] = {SHORT, MIDDLE, LONG};
static char out[LONG], in[LONG];
static int next_, previous_;

static MPI_Request sent(int mode, int count, MPI_Datatype type, int to, MPI_Comm comm) {
  MPI_Request request;
  if (mode == 0) OK(MPI_Isend(out, count, type, to, TAG, comm, &request));
  if (mode == 1) OK(MPI_Issend(out, count, type, to, TAG, comm, &request));
  if (mode == 2) {
    OK(MPI_Send_init(out, count, type, to, TAG, comm, &request));
    OK(MPI_Start(&request));
  }
  return request;
}

static int came_back(MPI_Request *request, int mode) {
  MPI_Status status;
  int flag;
  OK(MPI_Cancel(request));
  if (mode == 1) OK(MPI_Cancel(request));
  OK(MPI_Wait(request, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK((*request == MPI_REQUEST_NULL) == (mode != 2));
  return flag;
}

/* The receiver finds the messages that the sender announces, and no others. */
static void is_received(int count, int back) {
  MPI_Status status;
  int told, there, flag;
  OK(MPI_Sendrecv(&back, 1, MPI_INT, next_, AFTER, &told, 1, MPI_INT, previous_, AFTER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  if (!told) {
    memset(in, 0, count);
    OK(MPI_Recv(in, count, MPI_CHAR, previous_, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_TAG == TAG && in[0] == 'a' && in[count - 1] == 'a');
    OK(MPI_Get_count(&status, MPI_CHAR, &there));
    CHECK(there == count);
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
  CHECK(!flag);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* No receive takes the messages before they are taken back. */
static void nobody_receives(int mode, int count) {
  MPI_Request request = sent(mode, count, MPI_CHAR, next_, MPI_COMM_WORLD);
  int back = came_back(&request, mode);
  if (mode == 1 || count > 100000) CHECK(back);
  if (mode == 2) OK(MPI_Request_free(&request));
  is_received(count, back);
}

/* Persistent sends start again after they have come back. */
static void again(int count) {
  MPI_Request request = sent(2, count, MPI_CHAR, next_, MPI_COMM_WORLD);
  MPI_Status status;
  int flag, back = came_back(&request, 2);
  is_received(count, back);
  OK(MPI_Start(&request));
  OK(MPI_Recv(in, count, MPI_CHAR, previous_, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK(!flag && in[count - 1] == 'a');
  OK(MPI_Request_free(&request));
}

/* Receives are there already, or come at the same time. */
static void somebody_receives(int mode, int count) {
  MPI_Request request, receive;
  int back, told, flag;
  OK(MPI_Irecv(in, count, MPI_CHAR, previous_, TAG, MPI_COMM_WORLD, &receive));
  if (mode == 1) OK(MPI_Barrier(MPI_COMM_WORLD));
  request = sent(mode, count, MPI_CHAR, next_, MPI_COMM_WORLD);
  back = came_back(&request, mode);
  if (mode == 2) OK(MPI_Request_free(&request));
  OK(MPI_Sendrecv(&back, 1, MPI_INT, next_, AFTER, &told, 1, MPI_INT, previous_, AFTER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  if (mode == 1) CHECK(!back && !told);
  if (told) {
    MPI_Status status;
    OK(MPI_Cancel(&receive));
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
  } else {
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Every second of many sends is taken back. The others come in order. */
static void some_of_many(int count) {
  enum { MANY = 20 };
  MPI_Request requests[MANY];
  int back[MANY], told[MANY], flag;
  MPI_Status statuses[MANY];
  static int numbers[MANY][MIDDLE], got[MIDDLE];
  for (int i = 0; i < MANY; i++) {
    numbers[i][0] = i;
    OK(MPI_Issend(numbers[i], count, MPI_INT, next_, TAG, MPI_COMM_WORLD, &requests[i]));
  }
  for (int i = 0; i < MANY; i += 2) OK(MPI_Cancel(&requests[i]));
  for (int i = 0; i < MANY; i += 2) {
    do OK(MPI_Test(&requests[i], &flag, &statuses[i]));
    while (!flag);
    OK(MPI_Test_cancelled(&statuses[i], &back[i]));
    CHECK(back[i]);
  }
  for (int i = 1; i < MANY; i += 2) back[i] = 0;
  OK(MPI_Sendrecv(back, MANY, MPI_INT, next_, AFTER, told, MANY, MPI_INT, previous_, AFTER, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE));
  for (int i = 0; i < MANY; i++) {
    if (told[i]) continue;
    OK(MPI_Recv(got, count, MPI_INT, previous_, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got[0] == i);
  }
  OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
}

/* A message that a probe has taken is received. */
static void taken(int count) {
  MPI_Request request;
  MPI_Message message;
  MPI_Status status;
  int flag, mine = 0, theirs;
  OK(MPI_Issend(out, count, MPI_CHAR, next_, TAG, MPI_COMM_WORLD, &request));
  OK(MPI_Mprobe(previous_, TAG, MPI_COMM_WORLD, &message, &status));
  OK(MPI_Sendrecv(&mine, 1, MPI_INT, previous_, AFTER, &theirs, 1, MPI_INT, next_, AFTER, MPI_COMM_WORLD, &status));
  OK(MPI_Cancel(&request));
  OK(MPI_Mrecv(in, count, MPI_CHAR, &message, &status));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK(!flag);
}

/* A send that is taken back and whose request is freed, and one whose elements are packed. */
static void given_up(int count) {
  MPI_Request request;
  MPI_Datatype type;
  int flag;
  OK(MPI_Issend(out, count, MPI_CHAR, next_, TAG, MPI_COMM_WORLD, &request));
  OK(MPI_Cancel(&request));
  OK(MPI_Request_free(&request));
  OK(MPI_Type_vector(count / 2, 1, 2, MPI_CHAR, &type));
  OK(MPI_Type_commit(&type));
  request = sent(1, 1, type, next_, MPI_COMM_WORLD);
  CHECK(came_back(&request, 1));
  OK(MPI_Type_free(&type));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  CHECK(!flag);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  next_ = (rank_ + 1) % size_;
  previous_ = (rank_ + size_ - 1) % size_;
  memset(out, 'a', sizeof out);
  for (int kind = 0; kind < KINDS; kind++) {
    for (int mode = 0; mode < 3; mode++) {
      nobody_receives(mode, counts[kind]);
      for (int i = 0; i < 10; i++) somebody_receives(mode, counts[kind]);
    }
    again(counts[kind]);
    taken(counts[kind]);
    given_up(counts[kind]);
  }
  some_of_many(SHORT);
  some_of_many(MIDDLE);
  return MPI_Finalize();
}
