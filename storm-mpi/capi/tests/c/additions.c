/* The construction of types, their attributes, and error codes of the program. */
#include "check.h"

/* The integers, displacements and types of a type's construction, as returned. */
static int integers_[16];
static MPI_Aint addresses_[4];
static MPI_Datatype types_[4];

static void is_made(MPI_Datatype type, int made, int integers, int addresses, int types) {
  int got[4];
  OK(MPI_Type_get_envelope(type, &got[0], &got[1], &got[2], &got[3]));
  CHECK(got[0] == integers && got[1] == addresses && got[2] == types && got[3] == made);
  OK(MPI_Type_get_contents(type, 16, 4, 4, integers_, addresses_, types_));
}

static void are(const int *expected, int count) {
  CHECK(!memcmp(integers_, expected, count * sizeof(int)));
}

static void blocks(void) {
  int lengths[2] = {2, 1}, at[2] = {0, 5};
  MPI_Aint bytes[2] = {8, -4};
  MPI_Datatype type, both[2] = {MPI_DOUBLE, MPI_SHORT};
  OK(MPI_Type_indexed(2, lengths, at, MPI_INT, &type));
  is_made(type, MPI_COMBINER_INDEXED, 5, 0, 1);
  are((int[]){2, 2, 1, 0, 5}, 5);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type));
  is_made(type, MPI_COMBINER_HINDEXED, 3, 2, 1);
  are((int[]){2, 2, 1}, 3);
  CHECK(addresses_[0] == 8 && addresses_[1] == -4 && types_[0] == MPI_INT);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_indexed_block(2, 3, at, MPI_INT, &type));
  is_made(type, MPI_COMBINER_INDEXED_BLOCK, 4, 0, 1);
  are((int[]){2, 3, 0, 5}, 4);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_hindexed_block(2, 3, bytes, MPI_INT, &type));
  is_made(type, MPI_COMBINER_HINDEXED_BLOCK, 2, 2, 1);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_struct(2, lengths, bytes, both, &type));
  is_made(type, MPI_COMBINER_STRUCT, 3, 2, 2);
  CHECK(types_[0] == MPI_DOUBLE && types_[1] == MPI_SHORT && addresses_[1] == -4);
  OK(MPI_Type_free(&type));
}

static void arrays(void) {
  int sizes[2] = {4, 6}, parts[2] = {2, 3}, starts[2] = {1, 2};
  int ways[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  int defaults[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 1};
  MPI_Datatype type;
  OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_CHAR, &type));
  is_made(type, MPI_COMBINER_SUBARRAY, 8, 0, 1);
  are((int[]){2, 4, 6, 2, 3, 1, 2, MPI_ORDER_C}, 8);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_darray(2, 1, 2, sizes, ways, defaults, grid, MPI_ORDER_FORTRAN, MPI_CHAR, &type));
  is_made(type, MPI_COMBINER_DARRAY, 12, 0, 1);
  are((int[]){2, 1, 2, 4, 6, ways[0], ways[1], defaults[0], defaults[1], 2, 1, MPI_ORDER_FORTRAN}, 12);
  OK(MPI_Type_free(&type));
}

/* A type that was freed meanwhile is returned as another one like it. */
static void one_of_another(void) {
  int numbers[4], expected[4] = {1, -1, 3, -1}, got[4] = {-1, -1, -1, -1};
  MPI_Datatype column, wide, copy, inner;
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &column));
  OK(MPI_Type_create_resized(column, -4, 64, &wide));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_dup(wide, &copy));
  is_made(copy, MPI_COMBINER_DUP, 0, 0, 1);
  inner = types_[0];
  is_made(inner, MPI_COMBINER_RESIZED, 0, 2, 1);
  CHECK(addresses_[0] == -4 && addresses_[1] == 64);
  OK(MPI_Type_free(&inner));
  column = types_[0];
  is_made(column, MPI_COMBINER_VECTOR, 3, 0, 1);
  are((int[]){2, 1, 2}, 3);
  OK(MPI_Type_commit(&column));
  for (int i = 0; i < 4; i++) numbers[i] = i + 1;
  OK(MPI_Sendrecv(numbers, 1, column, rank_, 0, got, 1, column, rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK(!memcmp(got, expected, sizeof(got)));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_contiguous(3, wide, &column));
  is_made(column, MPI_COMBINER_CONTIGUOUS, 1, 0, 1);
  OK(MPI_Type_free(&types_[0]));
  OK(MPI_Type_free(&column));
  OK(MPI_Type_create_hvector(3, 2, 24, MPI_BYTE, &column));
  is_made(column, MPI_COMBINER_HVECTOR, 2, 1, 1);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  CHECK(MPI_Type_get_contents(column, 1, 1, 1, integers_, addresses_, types_) == MPI_ERR_ARG);
  CHECK(MPI_Type_get_contents(MPI_INT, 1, 1, 1, integers_, addresses_, types_) == MPI_ERR_TYPE);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Type_get_envelope(MPI_INT, &got[0], &got[1], &got[2], &got[3]));
  CHECK(!got[0] && !got[1] && !got[2] && got[3] == MPI_COMBINER_NAMED);
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&wide));
  OK(MPI_Type_free(&copy));
}

static int code_, deleted_;

static int copies(MPI_Datatype type, int key, void *state, void *value, void *out, int *flag) {
  (void)type, (void)key;
  *(void **)out = (char *)value + *(int *)state;
  *flag = 1;
  return code_;
}

static int deletes(MPI_Datatype type, int key, void *value, void *state) {
  (void)type, (void)key, (void)value, (void)state;
  deleted_++;
  return MPI_SUCCESS;
}

static void hung_on_types(void) {
  char text[] = "text", *value;
  int key, flag, step = 2;
  MPI_Datatype type, copy;
  OK(MPI_Type_create_keyval(copies, deletes, &key, &step));
  OK(MPI_Type_contiguous(2, MPI_INT, &type));
  OK(MPI_Type_set_attr(type, key, text));
  OK(MPI_Type_dup(type, &copy));
  OK(MPI_Type_get_attr(copy, key, &value, &flag));
  CHECK(flag && value == text + 2);
  OK(MPI_Type_delete_attr(copy, key));
  OK(MPI_Type_get_attr(copy, key, &value, &flag));
  CHECK(!flag && deleted_ == 1);
  OK(MPI_Type_free(&copy));
  CHECK(deleted_ == 1);
  OK(MPI_Type_free(&type));
  CHECK(deleted_ == 2);
  OK(MPI_Type_set_attr(MPI_DOUBLE, key, text));
  OK(MPI_Type_get_attr(MPI_DOUBLE, key, &value, &flag));
  CHECK(flag && value == text);
  OK(MPI_Type_delete_attr(MPI_DOUBLE, key));
  OK(MPI_Type_free_keyval(&key));
  CHECK(key == MPI_KEYVAL_INVALID);
}

static int told_;

static void is_told(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  told_ = *code;
}

static void codes(void) {
  int class, code, got, flag, length, *last;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Errhandler handler;
  OK(MPI_Add_error_class(&class));
  CHECK(class > MPI_ERR_LASTCODE);
  OK(MPI_Add_error_code(class, &code));
  OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
  CHECK(flag && *last == code && code > class);
  OK(MPI_Error_class(code, &got));
  CHECK(got == class);
  OK(MPI_Error_string(code, text, &length));
  CHECK(length == 0);
  OK(MPI_Add_error_string(code, "out of cheese"));
  OK(MPI_Error_string(code, text, &length));
  CHECK(!strcmp(text, "out of cheese") && length == 13);
  OK(MPI_Add_error_code(MPI_ERR_IO, &got));
  OK(MPI_Error_class(got, &got));
  CHECK(got == MPI_ERR_IO);
  OK(MPI_Comm_create_errhandler(is_told, &handler));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
  OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, code));
  CHECK(told_ == code);
  CHECK(MPI_Add_error_string(MPI_ERR_IO, "mine") == MPI_ERR_ARG && told_ == MPI_ERR_ARG);
  /* A function of an attribute that fails gives its own code, and there is no duplicate. */
  int key, step = 0;
  MPI_Comm comm = MPI_COMM_SELF;
  OK(MPI_Comm_create_keyval(copies, MPI_COMM_NULL_DELETE_FN, &key, &step));
  OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, text));
  code_ = code;
  CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == code && comm == MPI_COMM_NULL && told_ == code);
  code_ = MPI_SUCCESS;
  OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Errhandler_free(&handler));
}

static void of_fortran(void) {
  int size;
  double in = rank_ + 1, sum = 0;
  MPI_Datatype type;
  OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type));
  CHECK(type == MPI_REAL8);
  OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 8, &type));
  CHECK(type == MPI_COMPLEX8);
  OK(MPI_Type_size(MPI_DOUBLE_COMPLEX, &size));
  CHECK(size == 16);
  OK(MPI_Allreduce(&in, &sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD));
  CHECK(sum == size_ * (size_ + 1) / 2);
}

static void strings(void) {
  char value[8];
  int flag, room = 3;
  MPI_Info info;
  OK(MPI_Info_create_env(0, NULL, &info));
  OK(MPI_Info_set(info, "key", "value"));
  OK(MPI_Info_get_string(info, "key", &room, value, &flag));
  CHECK(flag && room == 6 && !strcmp(value, "va"));
  OK(MPI_Info_get_string(info, "key", &room, value, &flag));
  CHECK(flag && room == 6 && !strcmp(value, "value"));
  room = 0;
  OK(MPI_Info_get_string(info, "key", &room, NULL, &flag));
  CHECK(flag && room == 6);
  OK(MPI_Info_get_string(info, "other", &room, value, &flag));
  CHECK(!flag);
  OK(MPI_Info_free(&info));
}

static void buffered_again_and_again(void) {
  char space[2 * (sizeof(int) + MPI_BSEND_OVERHEAD)], *back;
  int out, in, bytes;
  MPI_Request request;
  OK(MPI_Buffer_attach(space, sizeof(space)));
  OK(MPI_Bsend_init(&out, 1, MPI_INT, rank_, 7, MPI_COMM_WORLD, &request));
  for (out = 0; out < 5; out++) {
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&in, 1, MPI_INT, rank_, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(in == out);
  }
  OK(MPI_Request_free(&request));
  OK(MPI_Buffer_detach(&back, &bytes));
  CHECK(back == space && bytes == (int)sizeof(space));
}

/* The destructor of the last type once called itself for each of its ingredients. */
static void one_of_another_many_times(void) {
  MPI_Datatype type, next;
  OK(MPI_Type_contiguous(2, MPI_INT, &type));
  for (int i = 0; i < 300000; i++) {
    OK(MPI_Type_dup(type, &next));
    OK(MPI_Type_free(&type));
    type = next;
  }
  OK(MPI_Type_free(&type));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  one_of_another_many_times();
  blocks();
  arrays();
  one_of_another();
  hung_on_types();
  codes();
  of_fortran();
  strings();
  buffered_again_and_again();
  return MPI_Finalize();
}
