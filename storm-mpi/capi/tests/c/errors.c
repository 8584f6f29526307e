/* Mistakes are reported: each gives its error class. One rank and more. */
#include "check.h"

static int called_, last_;
static MPI_Comm where_;

static void handler(MPI_Comm *comm, int *code, ...) {
  called_++;
  last_ = *code;
  where_ = *comm;
}

static void is_class(int code, int class) {
  int got = -1, length;
  char text[MPI_MAX_ERROR_STRING];
  CHECK(MPI_Error_class(code, &got) == MPI_SUCCESS);
  if (got != class) fprintf(stderr, "class %d instead of %d\n", got, class);
  CHECK(got == class);
  CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS);
  CHECK(length > 0 && length == (int)strlen(text));
}

static void window_handler(MPI_Win *win, int *code, ...) {
  called_++;
  last_ = *code;
  where_ = *win;
}

/* Windows have an error handler of their own, which is fatal at first. */
static void windows(void) {
  int part[4] = {0}, value = 1, *base;
  double wide = 1;
  MPI_Win win, other;
  MPI_Errhandler mine, got;
  MPI_Datatype pair;
  is_class(MPI_Win_create(part, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_SIZE);
  is_class(MPI_Win_create(part, 4, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_DISP);
  is_class(MPI_Win_create(NULL, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_BASE);
  is_class(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
  OK(MPI_Win_create(part, sizeof(part), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &other));
  OK(MPI_Win_get_errhandler(win, &got));
  CHECK(got == MPI_ERRORS_ARE_FATAL);
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  OK(MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN));
  is_class(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_lock(7, 0, 0, win), MPI_ERR_LOCKTYPE);
  is_class(MPI_Win_lock(MPI_LOCK_SHARED, size_, 0, win), MPI_ERR_RANK);
  is_class(MPI_Win_fence(1 << 20, win), MPI_ERR_ASSERT);
  is_class(MPI_Win_shared_query(win, 0, NULL, NULL, &base), MPI_ERR_RMA_FLAVOR);
  is_class(MPI_Win_attach(win, part, 4), MPI_ERR_RMA_FLAVOR);
  is_class(MPI_Win_detach(other, part), MPI_ERR_RMA_ATTACH);
  OK(MPI_Win_attach(other, part, sizeof(part)));
  is_class(MPI_Win_attach(other, part + 3, sizeof(part)), MPI_ERR_RMA_ATTACH);
  OK(MPI_Win_detach(other, part));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win));
  is_class(MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
  is_class(MPI_Put(&value, 1, MPI_INT, rank_, 4, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  is_class(MPI_Put(&value, 1, MPI_INT, rank_, -1, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
  is_class(MPI_Get(&value, 1, MPI_INT, rank_, 3, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
  is_class(MPI_Get(&value, 1, MPI_INT, rank_, 0, 2, MPI_INT, win), MPI_ERR_ARG);
  is_class(MPI_Put(&value, 1, MPI_INT, rank_, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
  is_class(MPI_Accumulate(&wide, 1, MPI_DOUBLE, rank_, 0, 1, MPI_DOUBLE, MPI_BOR, win), MPI_ERR_OP);
  OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  is_class(MPI_Put(part, 2, MPI_INT, rank_, 0, 1, pair, win), MPI_ERR_TYPE);
  OK(MPI_Type_free(&pair));
  OK(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 77, 1, MPI_INT, win));
  is_class(MPI_Allreduce(&value, part, 1, MPI_INT, MPI_REPLACE, MPI_COMM_WORLD), MPI_ERR_OP);
  OK(MPI_Win_unlock(rank_, win));
  OK(MPI_Win_create_errhandler(window_handler, &mine));
  OK(MPI_Win_set_errhandler(win, mine));
  called_ = 0;
  CHECK(MPI_Win_unlock(0, win) == MPI_ERR_RMA_SYNC && called_ == 1 && last_ == MPI_ERR_RMA_SYNC && where_ == win);
  OK(MPI_Win_call_errhandler(win, MPI_ERR_RMA_CONFLICT));
  CHECK(called_ == 2 && last_ == MPI_ERR_RMA_CONFLICT);
  OK(MPI_Errhandler_free(&mine));
  OK(MPI_Win_free(&win));
  OK(MPI_Win_free(&other));
  called_ = 0;
}

/* Keys of one kind of object are not valid for others. */
static void keys(void) {
  int of_comm, of_win, of_type, flag;
  void *value = NULL;
  MPI_Win win;
  OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &of_comm, NULL));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &of_win, NULL));
  OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &of_type, NULL));
  is_class(MPI_Comm_set_attr(MPI_COMM_WORLD, of_win, value), MPI_ERR_KEYVAL);
  is_class(MPI_Comm_get_attr(MPI_COMM_WORLD, of_type, &value, &flag), MPI_ERR_KEYVAL);
  is_class(MPI_Type_set_attr(MPI_INT, of_comm, value), MPI_ERR_KEYVAL);
  is_class(MPI_Win_set_attr(win, of_type, value), MPI_ERR_KEYVAL);
  is_class(MPI_Win_free_keyval(&of_comm), MPI_ERR_KEYVAL);
  CHECK(of_comm != MPI_KEYVAL_INVALID);
  OK(MPI_Win_set_attr(win, of_win, value));
  OK(MPI_Win_free_keyval(&of_win));
  OK(MPI_Type_free_keyval(&of_type));
  OK(MPI_Comm_free_keyval(&of_comm));
  OK(MPI_Win_free(&win));
}

/* Mistakes that were once accepted silently. */
static void more_of_windows(void) {
  int here = 0, value = 1;
  double wide = 0, other;
  MPI_Datatype pair;
  MPI_Win win;
  OK(MPI_Win_create(&here, sizeof(here), 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
  is_class(MPI_Compare_and_swap(&wide, &wide, &other, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
  OK(MPI_Type_contiguous(1, MPI_INT, &pair));
  OK(MPI_Type_commit(&pair));
  is_class(MPI_Compare_and_swap(&value, &value, &here, pair, 0, 0, win), MPI_ERR_TYPE);
  OK(MPI_Type_free(&pair));
  /* A sum of no elements is allowed, whatever their type. */
  is_class(MPI_Accumulate(&value, 1, MPI_BYTE, 0, 0, 1, MPI_BYTE, MPI_SUM, win), MPI_ERR_OP);
  OK(MPI_Accumulate(&value, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
  OK(MPI_Get_accumulate(&value, 0, MPI_BYTE, &here, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
  OK(MPI_Win_unlock(0, win));
  /* The epoch of the fence ended where the lock's epoch began. */
  is_class(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Win_free(&win));
}

static void too_large_a_grid(void) {
  int dims[2] = {size_, 2}, periods[2] = {0, 0}, value = 1;
  MPI_Comm comm = MPI_COMM_SELF;
  is_class(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm), MPI_ERR_DIMS);
  CHECK(comm == MPI_COMM_NULL);
  is_class(MPI_Reduce_local(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
  is_class(MPI_Reduce_local(&value, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
}

int main(int argc, char **argv) {
  int value = 0, in[8], neighbour;
  MPI_Status status;
  MPI_Request request;
  MPI_Comm copy;
  MPI_Datatype type;
  MPI_Errhandler mine, got;
  begin(&argc, &argv);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  windows();
  more_of_windows();
  keys();
  too_large_a_grid();
  is_class(MPI_Send(&value, 1, MPI_INT, size_, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  is_class(MPI_Send(&value, 1, MPI_INT, -9, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
  is_class(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
  is_class(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), MPI_ERR_TAG);
  is_class(MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG);
  is_class(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  is_class(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
  is_class(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
  is_class(MPI_Bcast(&value, 1, MPI_INT, size_, MPI_COMM_WORLD), MPI_ERR_ROOT);
  is_class(MPI_Allreduce(&value, in, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
  is_class(MPI_Allreduce(&value, in, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
  is_class(MPI_Bsend(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
  OK(MPI_Type_contiguous(2, MPI_INT, &type));
  is_class(MPI_Send(in, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
  OK(MPI_Type_free(&type));
  type = MPI_INT;
  CHECK(MPI_Type_free(&type) != MPI_SUCCESS);
  is_class(MPI_Cart_coords(MPI_COMM_WORLD, 0, 1, in), MPI_ERR_TOPOLOGY);
  /* A message that is too long is cut, and the status among several tells it. */
  int out[4] = {1, 2, 3, 4};
  in[2] = 77;
  OK(MPI_Isend(out, 4, MPI_INT, rank_, 1, MPI_COMM_WORLD, &request));
  is_class(MPI_Recv(in, 2, MPI_INT, rank_, 1, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
  CHECK(in[0] == 1 && in[1] == 2 && in[2] == 77);
  CHECK(status.MPI_SOURCE == rank_ && status.MPI_TAG == 1);
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  MPI_Request pair[2];
  MPI_Status statuses[2];
  OK(MPI_Irecv(in, 1, MPI_INT, rank_, 2, MPI_COMM_WORLD, &pair[0]));
  OK(MPI_Irecv(in + 4, 4, MPI_INT, rank_, 3, MPI_COMM_WORLD, &pair[1]));
  OK(MPI_Send(out, 4, MPI_INT, rank_, 2, MPI_COMM_WORLD));
  OK(MPI_Send(out, 4, MPI_INT, rank_, 3, MPI_COMM_WORLD));
  is_class(MPI_Waitall(2, pair, statuses), MPI_ERR_IN_STATUS);
  is_class(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
  CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS && in[7] == 4);
  CHECK(statuses[0].MPI_TAG == 2 && statuses[0].MPI_SOURCE == rank_ && statuses[1].MPI_TAG == 3);
  OK(MPI_Irecv(in, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request));
  OK(MPI_Send(out, 4, MPI_INT, rank_, 5, MPI_COMM_WORLD));
  is_class(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
  CHECK(status.MPI_SOURCE == rank_ && status.MPI_TAG == 5 && request == MPI_REQUEST_NULL);
  /* The handle of a finished request stays invalid, whatever was begun since. */
  MPI_Request stale, others[20];
  int flag;
  OK(MPI_Irecv(in, 1, MPI_INT, rank_, 4, MPI_COMM_WORLD, &request));
  stale = request;
  OK(MPI_Send(out, 1, MPI_INT, rank_, 4, MPI_COMM_WORLD));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (int i = 0; i < 20; i++) {
    OK(MPI_Irecv(in, 1, MPI_INT, rank_, 4, MPI_COMM_WORLD, &others[i]));
    is_class(MPI_Wait(&stale, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    is_class(MPI_Test(&stale, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    is_class(MPI_Cancel(&stale), MPI_ERR_REQUEST);
    is_class(MPI_Request_free(&stale), MPI_ERR_REQUEST);
  }
  for (int i = 0; i < 20; i++) OK(MPI_Send(out, 1, MPI_INT, rank_, 4, MPI_COMM_WORLD));
  OK(MPI_Waitall(20, others, MPI_STATUSES_IGNORE));
  /* The handle of a received message stays invalid, too. */
  MPI_Message message, last;
  OK(MPI_Send(out, 1, MPI_INT, rank_, 5, MPI_COMM_WORLD));
  OK(MPI_Mprobe(rank_, 5, MPI_COMM_WORLD, &message, &status));
  last = message;
  OK(MPI_Mrecv(in, 1, MPI_INT, &message, &status));
  CHECK(message == MPI_MESSAGE_NULL);
  for (int i = 0; i < 20; i++) {
    OK(MPI_Send(out + 1, 1, MPI_INT, rank_, 5, MPI_COMM_WORLD));
    OK(MPI_Mprobe(rank_, 5, MPI_COMM_WORLD, &message, &status));
    is_class(MPI_Mrecv(in, 1, MPI_INT, &last, &status), MPI_ERR_REQUEST);
    is_class(MPI_Imrecv(in, 1, MPI_INT, &last, &request), MPI_ERR_REQUEST);
    CHECK(message != last && message != MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(in, 1, MPI_INT, &message, &status));
    CHECK(in[0] == 2);
  }
  /* A handler of the program, inherited by a duplicate. */
  OK(MPI_Comm_create_errhandler(handler, &mine));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_get_errhandler(copy, &got));
  CHECK(got == mine);
  is_class(MPI_Send(&value, 1, MPI_INT, size_, 0, copy), MPI_ERR_RANK);
  CHECK(called_ == 1 && where_ == copy);
  is_class(last_, MPI_ERR_RANK);
  OK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER));
  CHECK(called_ == 2 && last_ == MPI_ERR_OTHER);
  OK(MPI_Errhandler_free(&got));
  OK(MPI_Errhandler_free(&mine));
  CHECK(mine == MPI_ERRHANDLER_NULL);
  OK(MPI_Comm_free(&copy));
  /* After all mistakes the job still works. */
  neighbour = (rank_ + 1) % size_;
  OK(MPI_Sendrecv_replace(&neighbour, 1, MPI_INT, neighbour, 5, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
  CHECK(neighbour == rank_);
  return MPI_Finalize();
}
