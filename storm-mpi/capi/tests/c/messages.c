/* Messages between ranks: modes, wildcards, requests of all kinds. For two ranks and more. */
#include "check.h"

static int next_, previous_;

static void environment(void) {
  int flag, length, version, subversion;
  char name[MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];
  OK(MPI_Initialized(&flag));
  CHECK(flag);
  OK(MPI_Finalized(&flag));
  CHECK(!flag);
  OK(MPI_Get_processor_name(name, &length));
  CHECK(length > 0 && length == (int)strlen(name));
  OK(MPI_Get_library_version(library, &length));
  CHECK(length == (int)strlen(library));
  OK(MPI_Get_version(&version, &subversion));
  CHECK(version >= 3);
  double start = MPI_Wtime();
  CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1 && MPI_Wtime() >= start);
}

/* Sizes around the eager limit and far beyond it; every size in every mode. */
static void modes(void) {
  static const int sizes[] = {0, 1, 100, 4095, 4096, 4097, 1 << 18};
  int room;
  OK(MPI_Pack_size(1 << 18, MPI_INT, MPI_COMM_WORLD, &room));
  room += MPI_BSEND_OVERHEAD;
  char *space = malloc(room);
  OK(MPI_Buffer_attach(space, room));
  for (int i = 0; i < 7; i++) {
    int count = sizes[i];
    int *out = malloc(count * sizeof(int) + 1), *in = malloc(count * sizeof(int) + 1);
    for (int mode = 0; mode < 5; mode++) {
      for (int j = 0; j < count; j++) {
        out[j] = rank_ * 1000003 + j * 7 + mode;
        in[j] = -1;
      }
      MPI_Status status;
      if (mode == 4) {
        OK(MPI_Bsend(out, count, MPI_INT, next_, 40, MPI_COMM_WORLD));
        memset(out, 0, count * sizeof(int));
        OK(MPI_Recv(in, count, MPI_INT, previous_, 40, MPI_COMM_WORLD, &status));
        void *back;
        int bytes;
        OK(MPI_Buffer_detach(&back, &bytes));
        CHECK(back == space && bytes == room);
        OK(MPI_Buffer_attach(space, room));
      } else if (rank_ == 0 || (rank_ == size_ - 1 && mode == 1)) {
        /* One rank receives first, so that blocking sends end. */
        MPI_Request request;
        OK(MPI_Irecv(in, count, MPI_INT, previous_, mode, MPI_COMM_WORLD, &request));
        OK(mode == 1   ? MPI_Ssend(out, count, MPI_INT, next_, mode, MPI_COMM_WORLD)
           : mode == 2 ? MPI_Send(out, count, MPI_INT, next_, mode, MPI_COMM_WORLD)
                       : MPI_Sendrecv(out, count, MPI_INT, next_, mode, NULL, 0, MPI_INT,
                                      MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL);
      } else {
        OK(MPI_Recv(in, count, MPI_INT, previous_, mode, MPI_COMM_WORLD, &status));
        OK(MPI_Send(out, count, MPI_INT, next_, mode, MPI_COMM_WORLD));
      }
      int received;
      OK(MPI_Get_count(&status, MPI_INT, &received));
      CHECK(received == count && status.MPI_SOURCE == previous_);
      CHECK(status.MPI_TAG == (mode == 4 ? 40 : mode));
      for (int j = 0; j < count; j++) CHECK(in[j] == previous_ * 1000003 + j * 7 + mode);
    }
    free(out);
    free(in);
  }
  void *back;
  int bytes;
  OK(MPI_Buffer_detach(&back, &bytes));
  free(space);
}

static void wildcards(void) {
  if (rank_ == 0) {
    int *seen = calloc(size_, sizeof(int));
    for (int i = 0; i < 3 * (size_ - 1); i++) {
      MPI_Status found, got;
      int flag, message[2];
      OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found));
      OK(MPI_Iprobe(found.MPI_SOURCE, found.MPI_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
      CHECK(flag);
      OK(MPI_Recv(message, 2, MPI_INT, found.MPI_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &got));
      CHECK(got.MPI_SOURCE == found.MPI_SOURCE && got.MPI_TAG == found.MPI_TAG);
      /* Messages do not overtake: each source's messages come in order. */
      CHECK(message[0] == got.MPI_SOURCE && message[1] == seen[got.MPI_SOURCE]++);
    }
    free(seen);
  } else {
    for (int i = 0; i < 3; i++) {
      int message[2] = {rank_, i};
      OK(MPI_Send(message, 2, MPI_INT, 0, 10 + i, MPI_COMM_WORLD));
    }
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void nobody(void) {
  int value = 5, flag = 0, count;
  MPI_Status status;
  OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
  OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(value == 5 && status.MPI_SOURCE == MPI_PROC_NULL && count == 0);
  OK(MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status));
  CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
}

static void exchange(void) {
  double out = rank_ + 0.5, in = -1;
  MPI_Status status;
  OK(MPI_Sendrecv(&out, 1, MPI_DOUBLE, next_, 1, &in, 1, MPI_DOUBLE, previous_, 1,
                  MPI_COMM_WORLD, &status));
  CHECK(in == previous_ + 0.5 && status.MPI_SOURCE == previous_);
  OK(MPI_Sendrecv_replace(&out, 1, MPI_DOUBLE, next_, 2, previous_, 2, MPI_COMM_WORLD, &status));
  CHECK(out == previous_ + 0.5);
}

/* All pairs at once, and every way to wait. */
static void requests(int way) {
  enum { EACH = 3 };
  int total = EACH * size_, done = 0;
  MPI_Request *recv = malloc(total * sizeof *recv), *send = malloc(total * sizeof *send);
  MPI_Status *statuses = malloc(total * sizeof *statuses);
  int *in = malloc(total * sizeof(int)), *out = malloc(total * sizeof(int));
  int *indices = malloc(total * sizeof(int)), *seen = calloc(total, sizeof(int));
  for (int i = 0; i < total; i++) {
    in[i] = -1;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, i / EACH, i % EACH, MPI_COMM_WORLD, &recv[i]));
  }
  for (int i = 0; i < total; i++) {
    out[i] = rank_ * 100 + i % EACH;
    OK((i % 2 ? MPI_Isend : MPI_Issend)(&out[i], 1, MPI_INT, i / EACH, i % EACH, MPI_COMM_WORLD,
                                        &send[i]));
  }
  while (done < total) {
    int count = 0, index = -7, flag;
    switch (way) {
    case 0: OK(MPI_Waitall(total, recv, statuses)); break;
    case 1:
      do OK(MPI_Testall(total, recv, &flag, statuses));
      while (!flag);
      break;
    case 2:
      OK(MPI_Waitany(total, recv, &index, &statuses[0]));
      indices[count++] = index;
      break;
    case 3:
      do OK(MPI_Testany(total, recv, &index, &flag, &statuses[0]));
      while (!flag);
      indices[count++] = index;
      break;
    case 4: OK(MPI_Waitsome(total, recv, &count, indices, statuses)); break;
    case 5:
      do OK(MPI_Testsome(total, recv, &count, indices, statuses));
      while (count == 0);
      break;
    }
    if (way < 2) {
      for (count = 0; count < total; count++) indices[count] = count;
    }
    for (int i = 0; i < count; i++) {
      int at = indices[i];
      CHECK(at >= 0 && at < total && !seen[at]++ && recv[at] == MPI_REQUEST_NULL);
      CHECK(statuses[i].MPI_SOURCE == at / EACH && statuses[i].MPI_TAG == at % EACH);
      CHECK(in[at] == at / EACH * 100 + at % EACH);
    }
    done += count;
  }
  int index, count, flag;
  OK(MPI_Waitany(total, recv, &index, &statuses[0]));
  CHECK(index == MPI_UNDEFINED);
  OK(MPI_Waitsome(total, recv, &count, indices, statuses));
  CHECK(count == MPI_UNDEFINED);
  OK(MPI_Testany(total, recv, &index, &flag, MPI_STATUS_IGNORE));
  CHECK(flag && index == MPI_UNDEFINED);
  OK(MPI_Waitall(total, send, MPI_STATUSES_IGNORE));
  free(recv); free(send); free(statuses); free(in); free(out); free(indices); free(seen);
}

static void persistent(void) {
  int out = 0, in = -1, flag;
  MPI_Request pair[2];
  MPI_Status status;
  OK(MPI_Recv_init(&in, 1, MPI_INT, previous_, 9, MPI_COMM_WORLD, &pair[0]));
  OK(MPI_Send_init(&out, 1, MPI_INT, next_, 9, MPI_COMM_WORLD, &pair[1]));
  /* A request that was not started is done, with an empty status. */
  OK(MPI_Test(&pair[0], &flag, &status));
  CHECK(flag && pair[0] != MPI_REQUEST_NULL);
  for (int lap = 0; lap < 5; lap++) {
    out = 100 * lap + rank_;
    OK(MPI_Startall(2, pair));
    OK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    CHECK(in == 100 * lap + previous_ && pair[0] != MPI_REQUEST_NULL);
  }
  OK(MPI_Start(&pair[1]));
  OK(MPI_Start(&pair[0]));
  OK(MPI_Wait(&pair[0], &status));
  CHECK(status.MPI_SOURCE == previous_ && status.MPI_TAG == 9);
  OK(MPI_Wait(&pair[1], &status));
  OK(MPI_Request_free(&pair[0]));
  OK(MPI_Request_free(&pair[1]));
  CHECK(pair[0] == MPI_REQUEST_NULL && pair[1] == MPI_REQUEST_NULL);
}

static void given_up(void) {
  int never = 0, flag, value = rank_, in = -1;
  MPI_Request request, freed;
  MPI_Status status;
  OK(MPI_Irecv(&never, 1, MPI_INT, previous_, 77, MPI_COMM_WORLD, &request));
  OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
  CHECK(!flag);
  OK(MPI_Cancel(&request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK(flag && request == MPI_REQUEST_NULL);
  /* A send whose request is freed still arrives. */
  OK(MPI_Isend(&value, 1, MPI_INT, next_, 78, MPI_COMM_WORLD, &freed));
  OK(MPI_Request_free(&freed));
  OK(MPI_Recv(&in, 1, MPI_INT, previous_, 78, MPI_COMM_WORLD, &status));
  CHECK(in == previous_);
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK(!flag);
  OK(MPI_Irecv(&in, 1, MPI_INT, previous_, 79, MPI_COMM_WORLD, &request));
  OK(MPI_Send(&value, 1, MPI_INT, next_, 79, MPI_COMM_WORLD));
  do OK(MPI_Request_get_status(request, &flag, &status));
  while (!flag);
  CHECK(status.MPI_TAG == 79 && request != MPI_REQUEST_NULL);
  OK(MPI_Test(&request, &flag, &status));
  CHECK(flag && status.MPI_TAG == 79 && in == previous_);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  next_ = (rank_ + 1) % size_;
  previous_ = (rank_ + size_ - 1) % size_;
  environment();
  modes();
  wildcards();
  nobody();
  exchange();
  for (int way = 0; way < 6; way++) requests(way);
  persistent();
  given_up();
  OK(MPI_Finalize());
  int flag;
  MPI_Finalized(&flag);
  return flag ? 0 : 1;
}
