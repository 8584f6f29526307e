/* Files: all ranks read what some have written, with and without views, in the directory of the
 * first argument. */
#include "check.h"
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COUNT = 1000 };

static int me, n;
static char path_[4096];

static MPI_File opened(int mode) {
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path_, mode, MPI_INFO_NULL, &file));
  return file;
}

static void is_class(int code, int class) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  if (got != class) fprintf(stderr, "class %d instead of %d\n", got, class);
  CHECK(got == class);
}

/* Each rank writes its block: at an offset, by the pointer, and without waiting. */
static void blocks(void) {
  int *mine = malloc(COUNT * sizeof(int)), *got = malloc(COUNT * sizeof(int)), count;
  MPI_Offset at = (MPI_Offset)me * COUNT * sizeof(int), size, position;
  MPI_Offset next = (MPI_Offset)((me + 1) % n) * COUNT * sizeof(int);
  MPI_Status status;
  MPI_Request requests[2];
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  for (int i = 0; i < COUNT; i++) mine[i] = me * COUNT + i;
  OK(MPI_File_write_at_all(file, at, mine, COUNT, MPI_INT, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == COUNT);
  OK(MPI_File_sync(file));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_get_size(file, &size));
  CHECK(size == (MPI_Offset)n * COUNT * (MPI_Offset)sizeof(int));
  OK(MPI_File_read_at(file, next, got, COUNT, MPI_INT, &status));
  for (int i = 0; i < COUNT; i++) CHECK(got[i] == (me + 1) % n * COUNT + i);
  OK(MPI_File_seek(file, at, MPI_SEEK_SET));
  OK(MPI_File_read(file, got, COUNT / 2, MPI_INT, &status));
  OK(MPI_File_get_position(file, &position));
  CHECK(position == at + (MPI_Offset)(COUNT / 2 * sizeof(int)));
  OK(MPI_File_read_all(file, got + COUNT / 2, COUNT / 2, MPI_INT, &status));
  CHECK(!memcmp(got, mine, COUNT * sizeof(int)));
  OK(MPI_File_seek(file, 0, MPI_SEEK_END));
  OK(MPI_File_seek(file, -8, MPI_SEEK_CUR));
  OK(MPI_File_read(file, got, 10, MPI_INT, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == 2 && got[1] == n * COUNT - 1);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < COUNT; i++) mine[i] = -mine[i];
  OK(MPI_File_iwrite_at(file, at, mine, COUNT, MPI_INT, &requests[0]));
  OK(MPI_Wait(&requests[0], &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == COUNT);
  OK(MPI_File_iread_at(file, at, got, COUNT, MPI_INT, &requests[0]));
  OK(MPI_File_seek(file, at, MPI_SEEK_SET));
  OK(MPI_File_iread(file, &count, 1, MPI_INT, &requests[1]));
  OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  CHECK(!memcmp(got, mine, COUNT * sizeof(int)) && count == mine[0]);
  memset(got, 0, COUNT * sizeof(int));
  OK(MPI_File_read_at_all_begin(file, at, got, COUNT, MPI_INT));
  OK(MPI_File_read_at_all_end(file, got, &status));
  CHECK(!memcmp(got, mine, COUNT * sizeof(int)));
  OK(MPI_File_close(&file));
  CHECK(file == MPI_FILE_NULL);
  free(mine), free(got);
}

/* Elements of all ranks take turns in the file; each has a block of a matrix. */
static void views(void) {
  enum { EACH = 64, SIDE = 8 };
  double mine[EACH], got[EACH], whole;
  int sizes[2] = {SIDE, SIDE * n}, parts[2] = {SIDE, SIDE}, starts[2] = {0, SIDE * me};
  char representation[MPI_MAX_DATAREP_STRING];
  MPI_Datatype turns, block, etype, filetype;
  MPI_Offset at, disp;
  MPI_Status status;
  MPI_File file = opened(MPI_MODE_RDWR);
  OK(MPI_File_set_size(file, 0));
  OK(MPI_Type_create_resized(MPI_DOUBLE, 0, n * sizeof(double), &turns));
  OK(MPI_Type_commit(&turns));
  OK(MPI_File_set_view(file, 16 + me * sizeof(double), MPI_DOUBLE, turns, "native", MPI_INFO_NULL));
  for (int i = 0; i < EACH; i++) mine[i] = i * n + me;
  OK(MPI_File_write(file, mine, EACH / 2, MPI_DOUBLE, &status));
  OK(MPI_File_write_all(file, mine + EACH / 2, EACH / 2, MPI_DOUBLE, &status));
  OK(MPI_File_get_position(file, &at));
  CHECK(at == EACH);
  OK(MPI_File_get_byte_offset(file, 3, &disp));
  CHECK(disp == 16 + (3 * n + me) * (MPI_Offset)sizeof(double));
  OK(MPI_File_get_view(file, &disp, &etype, &filetype, representation));
  CHECK(disp == 16 + me * (MPI_Offset)sizeof(double) && etype == MPI_DOUBLE);
  CHECK(!strcmp(representation, "native"));
  OK(MPI_Type_free(&filetype));
  OK(MPI_Type_free(&turns));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_seek(file, 0, MPI_SEEK_END));
  OK(MPI_File_get_position(file, &at));
  CHECK(at == EACH);
  OK(MPI_File_read_at(file, 5, got, 3, MPI_DOUBLE, &status));
  CHECK(got[0] == mine[5] && got[2] == mine[7]);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  for (int i = 0; i < EACH * n; i++) {
    OK(MPI_File_read_at(file, 16 + i * sizeof(double), &whole, 1, MPI_DOUBLE, &status));
    CHECK(whole == i);
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &block));
  OK(MPI_Type_commit(&block));
  OK(MPI_File_set_view(file, 0, MPI_DOUBLE, block, "native", MPI_INFO_NULL));
  OK(MPI_File_set_atomicity(file, 1));
  OK(MPI_File_write_at_all(file, 0, mine, EACH, MPI_DOUBLE, &status));
  OK(MPI_File_sync(file));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_read_at_all(file, 0, got, EACH, MPI_DOUBLE, &status));
  CHECK(!memcmp(got, mine, sizeof(mine)));
  OK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
  /* The second row of the last rank's block. */
  OK(MPI_File_read_at(file, 2 * SIDE * n - SIDE, got, SIDE, MPI_DOUBLE, &status));
  for (int i = 0; i < SIDE; i++) CHECK(got[i] == (SIDE + i) * n + n - 1);
  OK(MPI_Type_free(&block));
  OK(MPI_File_close(&file));
}

static int called_;

static void handler(MPI_File *file, int *code, ...) {
  (void)file, (void)code;
  called_++;
}

static void the_rest(void) {
  MPI_File file, none;
  MPI_Group group;
  MPI_Errhandler mine, got;
  MPI_Offset size;
  int mode, flag, count, value = 5;
  MPI_Status status;
  is_class(MPI_File_open(MPI_COMM_WORLD, "/nonexistent/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none),
           MPI_ERR_NO_SUCH_FILE);
  is_class(MPI_File_open(MPI_COMM_WORLD, path_, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &none),
           MPI_ERR_FILE_EXISTS);
  is_class(MPI_File_open(MPI_COMM_WORLD, path_, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &none),
           MPI_ERR_AMODE);
  file = opened(MPI_MODE_WRONLY | MPI_MODE_APPEND);
  OK(MPI_File_get_amode(file, &mode));
  CHECK(mode == (MPI_MODE_WRONLY | MPI_MODE_APPEND));
  OK(MPI_File_get_group(file, &group));
  OK(MPI_Group_size(group, &count));
  CHECK(count == n);
  OK(MPI_Group_free(&group));
  OK(MPI_File_get_atomicity(file, &flag));
  CHECK(!flag);
  OK(MPI_File_get_size(file, &size));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (me == 0) OK(MPI_File_write(file, &value, 1, MPI_INT, &status));
  OK(MPI_File_close(&file));
  file = opened(MPI_MODE_RDONLY);
  OK(MPI_File_read_at(file, size, &count, 1, MPI_INT, &status));
  CHECK(count == 5);
  CHECK(MPI_File_write_at(file, 0, &value, 1, MPI_INT, &status) != MPI_SUCCESS);
  OK(MPI_File_create_errhandler(handler, &mine));
  OK(MPI_File_set_errhandler(file, mine));
  OK(MPI_File_get_errhandler(file, &got));
  CHECK(got == mine);
  CHECK(MPI_File_seek(file, 0, 77) != MPI_SUCCESS && called_ == 1);
  OK(MPI_Errhandler_free(&mine));
  OK(MPI_File_close(&file));
  file = opened(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  OK(MPI_File_preallocate(file, size + 100));
  OK(MPI_File_get_size(file, &size));
  CHECK(size >= 100);
  OK(MPI_File_close(&file));
  is_class(MPI_File_open(MPI_COMM_WORLD, path_, MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
  is_class(MPI_File_delete(path_, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
}

/* All others once waited for a member whose view was refused, and a view without data was
 * refused. */
static void views_that_differ(void) {
  MPI_Datatype empty;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_Status status;
  MPI_Offset size;
  int count, value = me, code;
  OK(MPI_File_set_size(file, 0));
  OK(MPI_Type_contiguous(0, MPI_INT, &empty));
  OK(MPI_Type_commit(&empty));
  OK(MPI_File_set_view(file, 4, MPI_INT, me == 0 ? MPI_INT : empty, "native", MPI_INFO_NULL));
  OK(MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == (me == 0));
  OK(MPI_File_read_at_all(file, 0, &value, 1, MPI_INT, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == (me == 0));
  OK(MPI_File_get_size(file, &size));
  CHECK(size == 8 || me != 0);
  code = MPI_File_set_view(file, me == 0 ? -1 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  if (me == 0) is_class(code, MPI_ERR_ARG); else OK(code);
  code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, me == 0 ? "another" : "native", MPI_INFO_NULL);
  if (me == 0) is_class(code, MPI_ERR_UNSUPPORTED_DATAREP); else OK(code);
  code = MPI_File_set_view(file, 0, MPI_INT, me == 0 ? MPI_CHAR : MPI_INT, "native", MPI_INFO_NULL);
  if (me == 0) is_class(code, MPI_ERR_ARG); else OK(code);
  OK(MPI_Type_free(&empty));
  OK(MPI_File_close(&file));
}

/* Replaces the C library's function, also for libstormmpi. */
static int refused_ = -1;

int close(int descriptor) {
  char link[64], target[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, target, sizeof(target) - 1);
  int closed = (int)syscall(SYS_close, descriptor);
  if (refused_ >= 0 && length > 7 && !strncmp(target + length - 7, "refused", 7)) {
    refused_++;
    errno = EDQUOT;
    return -1;
  }
  return closed;
}

/* The result of close(2) was once dropped. A quota or NFS may refuse written data there. */
static void what_closing_says(void) {
  char plain[4096];
  MPI_File file;
  strcpy(plain, path_);
  snprintf(strrchr(path_, '/'), 9, "/refused");
  file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  refused_ = 0;
  is_class(MPI_File_close(&file), MPI_ERR_QUOTA);
  CHECK(refused_ == 1 && file == MPI_FILE_NULL);
  refused_ = -1;
  is_class(MPI_File_open(MPI_COMM_WORLD, path_, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
  strcpy(path_, plain);
}

/* An overlap was once refused in a file that is only read. */
static void what_is_read_twice(void) {
  int data[4] = {10, 11, 12, 13}, got[8], lengths[2] = {3, 1}, at[2] = {0, 1};
  MPI_Datatype twice;
  MPI_Offset end;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  OK(MPI_Type_indexed(2, lengths, at, MPI_INT, &twice));
  OK(MPI_Type_commit(&twice));
  if (me == 0) OK(MPI_File_write_at(file, 0, data, 4, MPI_INT, MPI_STATUS_IGNORE));
  is_class(MPI_File_set_view(file, 0, MPI_INT, twice, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  OK(MPI_File_close(&file));
  file = opened(MPI_MODE_RDONLY);
  OK(MPI_File_set_view(file, 0, MPI_INT, twice, "native", MPI_INFO_NULL));
  OK(MPI_File_read_at(file, 0, got, 5, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(got[0] == 10 && got[1] == 11 && got[2] == 12 && got[3] == 11 && got[4] == 13);
  OK(MPI_File_seek(file, 0, MPI_SEEK_END));
  OK(MPI_File_get_position(file, &end));
  CHECK(end == 5);
  OK(MPI_File_close(&file));
  OK(MPI_Type_free(&twice));
}

/* All ranks begin at the end of the file as they opened it, even when one writes at once, as
 * p4est does. */
static void appended(void) {
  MPI_Offset at, first;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_WRONLY);
  OK(MPI_File_set_size(file, 0));
  OK(MPI_File_close(&file));
  for (int lap = 0; lap < 100; lap++) {
    file = opened(MPI_MODE_WRONLY | MPI_MODE_APPEND);
    OK(MPI_File_get_position(file, &at));
    OK(MPI_File_write_at(file, at + me * (MPI_Offset)sizeof(int), &me, 1, MPI_INT, MPI_STATUS_IGNORE));
    first = at;
    OK(MPI_Bcast(&first, 1, MPI_OFFSET, 0, MPI_COMM_WORLD));
    CHECK(at == first && at == lap * n * (MPI_Offset)sizeof(int));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_close(&file));
  }
}

/* PnetCDF's views: a header, and a part of an array, whose bounds become those of both. The
 * second element, which nobody writes, lies among the first. The view was once refused. */
static void a_view_of_header_and_array(void) {
  int sizes[2] = {3, 4 * n}, part[2] = {3, 4}, start[2] = {0, 4 * me}, lengths[2] = {100, 1}, data[12], got;
  MPI_Aint at[2] = {0, 512};
  MPI_Datatype both[2] = {MPI_BYTE, MPI_DATATYPE_NULL}, type;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  for (int i = 0; i < 12; i++) data[i] = 100 * me + i;
  OK(MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &both[1]));
  OK(MPI_Type_create_struct(2, lengths, at, both, &type));
  OK(MPI_Type_commit(&type));
  OK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
  OK(MPI_File_write_at_all(file, 100, data, 12, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_set_view(file, 512, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for (int i = 0; i < 12 * n; i++) {
    int column = i % (4 * n), row = i / (4 * n);
    OK(MPI_File_read_at(file, i, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(got == 100 * (column / 4) + 4 * row + column % 4);
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_close(&file));
  OK(MPI_Type_free(&both[1]));
  OK(MPI_Type_free(&type));
}

/* A name that is not UTF-8 was once changed. */
static void a_name_of_any_bytes(const char *directory) {
  char plain[4096];
  MPI_File file;
  strcpy(plain, path_);
  snprintf(path_, sizeof(path_), "ufs:%s/caf\xe9", directory);
  file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  CHECK(access(path_ + 4, F_OK) == 0);
  OK(MPI_File_close(&file));
  if (me == 0) OK(MPI_File_delete(path_, MPI_INFO_NULL));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  CHECK(access(path_ + 4, F_OK) != 0);
  strcpy(path_, plain);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  me = rank_, n = size_;
  CHECK(argc == 2);
  snprintf(path_, sizeof(path_), "%s/file", argv[1]);
  blocks();
  views();
  views_that_differ();
  the_rest();
  what_closing_says();
  what_is_read_twice();
  a_view_of_header_and_array();
  appended();
  a_name_of_any_bytes(argv[1]);
  return MPI_Finalize();
}
