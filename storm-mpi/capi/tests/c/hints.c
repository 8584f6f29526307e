/* Matched probes, info objects, memory, and names of MPI-1 and MPI-2. */
#include "check.h"
#include <stddef.h>

static int next_, previous_;

/* Of two equal messages the probe takes the first. A receive of any message then gets the
 * second. */
static void matched_probes(int count) {
  int *first = malloc((count + 1) * sizeof(int)), *second = malloc((count + 1) * sizeof(int));
  int *in = malloc((count + 1) * sizeof(int)), flag = 0, bytes;
  MPI_Request sends[2], receive;
  MPI_Message message = MPI_MESSAGE_NULL, none = 5;
  MPI_Status status;
  for (int i = 0; i < count; i++) first[i] = rank_ + i, second[i] = -first[i] - 1;
  OK(MPI_Isend(first, count, MPI_INT, next_, 3, MPI_COMM_WORLD, &sends[0]));
  OK(MPI_Isend(second, count, MPI_INT, next_, 3, MPI_COMM_WORLD, &sends[1]));
  OK(MPI_Mprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &message, &status));
  CHECK(message != MPI_MESSAGE_NULL && status.MPI_SOURCE == previous_ && status.MPI_TAG == 3);
  OK(MPI_Get_count(&status, MPI_INT, &bytes));
  CHECK(bytes == count);
  OK(MPI_Recv(in, count, MPI_INT, previous_, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (int i = 0; i < count; i++) CHECK(in[i] == -(previous_ + i) - 1);
  OK(MPI_Improbe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, &none, MPI_STATUS_IGNORE));
  CHECK(!flag);
  OK(MPI_Mrecv(in, count, MPI_INT, &message, &status));
  CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == previous_);
  for (int i = 0; i < count; i++) CHECK(in[i] == previous_ + i);
  OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
  OK(MPI_Isend(first, count, MPI_INT, next_, 4, MPI_COMM_WORLD, &sends[0]));
  while (!flag) OK(MPI_Improbe(previous_, 4, MPI_COMM_WORLD, &flag, &message, &status));
  OK(MPI_Imrecv(in, count, MPI_INT, &message, &receive));
  CHECK(message == MPI_MESSAGE_NULL);
  OK(MPI_Wait(&receive, &status));
  CHECK(status.MPI_TAG == 4 && (count == 0 || in[count - 1] == previous_ + count - 1));
  OK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE));
  OK(MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
  CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
  OK(MPI_Mrecv(in, 1, MPI_INT, &message, &status));
  CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);
  free(first), free(second), free(in);
  /* Later messages are not for these probes. */
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void infos(void) {
  MPI_Info info, copy, followed;
  char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL + 1];
  int flag, n;
  MPI_Comm comm;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "striping", "4"));
  OK(MPI_Info_set(info, "access_style", "read_once"));
  OK(MPI_Info_set(info, "striping", "16"));
  OK(MPI_Info_get_nkeys(info, &n));
  CHECK(n == 2);
  OK(MPI_Info_get_nthkey(info, 1, key));
  CHECK(!strcmp(key, "access_style"));
  /* In C, spaces are part of keys and values. */
  OK(MPI_Info_get_valuelen(info, "access_style ", &n, &flag));
  CHECK(!flag);
  OK(MPI_Info_get_valuelen(info, key, &n, &flag));
  CHECK(flag && n == 9);
  OK(MPI_Info_get(info, key, 4, value, &flag));
  CHECK(flag && !strcmp(value, "read"));
  OK(MPI_Info_dup(info, &copy));
  OK(MPI_Info_delete(info, "striping"));
  OK(MPI_Info_get(info, "striping", MPI_MAX_INFO_VAL, value, &flag));
  CHECK(!flag);
  OK(MPI_Info_get(copy, "striping", MPI_MAX_INFO_VAL, value, &flag));
  CHECK(flag && !strcmp(value, "16"));
  OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, copy, &comm));
  OK(MPI_Comm_set_info(comm, copy));
  OK(MPI_Comm_get_info(comm, &followed));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  CHECK(MPI_Info_delete(info, "striping") == MPI_ERR_INFO_NOKEY);
  CHECK(MPI_Info_set(info, "", "x") == MPI_ERR_INFO_KEY);
  CHECK(MPI_Info_set(info, "x", "") == MPI_ERR_INFO_VALUE);
  CHECK(MPI_Info_get_nthkey(info, 1, key) == MPI_ERR_ARG);
  CHECK(MPI_Info_set(MPI_INFO_NULL, "x", "y") == MPI_ERR_INFO);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Info_free(&info));
  OK(MPI_Info_free(&copy));
  OK(MPI_Info_free(&followed));
  CHECK(info == MPI_INFO_NULL);
  OK(MPI_Comm_free(&comm));
}

static int refuses;

static int refused(MPI_Comm comm, int key, void *value, void *state) {
  (void)comm, (void)key, (void)value, (void)state;
  return refuses ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void old_names(void) {
  struct part {
    char letter;
    double number;
  } *parts;
  MPI_Aint displacements[2] = {0, 24}, lower, upper;
  int lengths[2] = {1, 2}, key, flag, size;
  void *value;
  MPI_Datatype type;
  OK(MPI_Alloc_mem(2 * sizeof *parts, MPI_INFO_NULL, &parts));
  OK(MPI_Get_address(&parts[0].letter, &lower));
  OK(MPI_Get_address(&parts[0].number, &upper));
  CHECK(MPI_Aint_diff(upper, lower) == offsetof(struct part, number));
  CHECK(MPI_Aint_add(lower, offsetof(struct part, number)) == upper);
  OK(MPI_Free_mem(parts));
  OK(MPI_Type_hindexed(2, lengths, displacements, MPI_INT, &type));
  OK(MPI_Type_lb(type, &lower));
  OK(MPI_Type_ub(type, &upper));
  CHECK(lower == 0 && upper == 24 + 2 * (MPI_Aint)sizeof(int));
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_hindexed_block(2, 3, displacements, MPI_INT, &type));
  OK(MPI_Type_size(type, &size));
  OK(MPI_Type_ub(type, &upper));
  CHECK(size == 6 * (int)sizeof(int) && upper == 24 + 3 * (MPI_Aint)sizeof(int));
  OK(MPI_Type_free(&type));
  OK(MPI_Keyval_create(MPI_NULL_COPY_FN, refused, &key, NULL));
  OK(MPI_Attr_put(MPI_COMM_WORLD, key, &size));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  refuses = 1;
  CHECK(MPI_Attr_delete(MPI_COMM_WORLD, key) == MPI_ERR_OTHER);
  refuses = 0;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Attr_get(MPI_COMM_WORLD, key, &value, &flag));
  CHECK(flag && value == &size);
  OK(MPI_Attr_delete(MPI_COMM_WORLD, key));
  OK(MPI_Attr_get(MPI_COMM_WORLD, key, &value, &flag));
  CHECK(!flag);
  OK(MPI_Keyval_free(&key));
}

static int refused_copy(MPI_Comm comm, int key, void *state, void *from, void *to, int *flag) {
  (void)comm, (void)key, (void)state, (void)from, (void)to, (void)flag;
  return MPI_ERR_OTHER;
}

/* An attribute whose function refuses stays, whatever was to replace it. */
static void refusals(void) {
  int first = 1, second = 2, key, flag;
  void *value;
  MPI_Comm comm, copy = MPI_COMM_NULL;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  OK(MPI_Comm_create_keyval(refused_copy, refused, &key, NULL));
  OK(MPI_Comm_set_attr(comm, key, &first));
  refuses = 1;
  CHECK(MPI_Comm_set_attr(comm, key, &second) == MPI_ERR_OTHER);
  OK(MPI_Comm_get_attr(comm, key, &value, &flag));
  CHECK(flag && value == &first);
  /* More often than there is room for communicators: none is left over. */
  for (int i = 0; i < 5000; i++)
    CHECK(MPI_Comm_dup(comm, &copy) == MPI_ERR_OTHER && copy == MPI_COMM_NULL);
  refuses = 0;
  OK(MPI_Comm_set_attr(comm, key, &second));
  OK(MPI_Comm_get_attr(comm, key, &value, &flag));
  CHECK(flag && value == &second);
  OK(MPI_Comm_free(&comm));
  OK(MPI_Comm_free_keyval(&key));
}

/* Names that programs and libraries use without needing them. */
static void small_names(void) {
  struct { double d[3]; int i; } type_of;
  int lengths[2] = {3, 1}, count, flag, *last;
  MPI_Aint at[2] = {0, (char *)&type_of.i - (char *)&type_of};
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, mixed;
  MPI_Comm parent;
  MPI_Count long_count;
  MPI_Status status;
  char text[MPI_MAX_ERROR_STRING];
  OK(MPI_Comm_get_parent(&parent));
  CHECK(parent == MPI_COMM_NULL && MPI_DISPLACEMENT_CURRENT < 0);
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
  CHECK(flag && *last == MPI_ERR_LASTCODE && MPI_ERR_SPAWN <= *last);
  OK(MPI_Error_string(MPI_ERR_PORT, text, &count));
  CHECK(!strncmp(text, "MPI_ERR_PORT", 12));
  memset(&status, 0, sizeof(status));
  OK(MPI_Status_set_cancelled(&status, 1));
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK(flag);
  OK(MPI_Status_set_cancelled(&status, 0));
  OK(MPI_Test_cancelled(&status, &flag));
  CHECK(!flag);
  OK(MPI_Status_set_elements(&status, MPI_INT, 7));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == 7);
  OK(MPI_Type_create_struct(2, lengths, at, types, &mixed));
  for (int i = 0; i < 12; i++) {
    OK(MPI_Status_set_elements(&status, mixed, i));
    OK(MPI_Get_elements(&status, mixed, &count));
    CHECK(count == i);
    OK(MPI_Status_set_elements_x(&status, mixed, i));
    OK(MPI_Get_elements_x(&status, mixed, &long_count));
    CHECK(long_count == i);
  }
  OK(MPI_Type_free(&mixed));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  small_names();
  next_ = (rank_ + 1) % size_;
  previous_ = (rank_ + size_ - 1) % size_;
  matched_probes(0);
  matched_probes(10);
  matched_probes(50000);
  infos();
  old_names();
  refusals();
  return MPI_Finalize();
}
