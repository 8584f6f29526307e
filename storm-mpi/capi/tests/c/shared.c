/* Pointers of files that processes share, in the directory of the first argument. */
#include "check.h"
#include <dirent.h>

enum { RECORDS = 20 };

struct record {
  int who, number;
};

static int me, n;
static char path_[4096];
static const char *directory_;

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

static int sum_of(int value) {
  int sum;
  OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  return sum;
}

/* The order of the members is arbitrary. Every record is there once, and those of one member are
 * in order. */
static void in_any_order(void) {
  struct record mine, *all = malloc(n * RECORDS * sizeof *all);
  int *seen = calloc(n, sizeof *seen), count, got;
  MPI_Offset position, size;
  MPI_Request request;
  MPI_Status status;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == 0);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < RECORDS; i++) {
    mine.who = me, mine.number = i;
    if (i % 2) {
      OK(MPI_File_write_shared(file, &mine, 2, MPI_INT, &status));
    } else {
      OK(MPI_File_iwrite_shared(file, &mine, 2, MPI_INT, &request));
      OK(MPI_Wait(&request, &status));
    }
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 2);
  }
  OK(MPI_File_sync(file));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_get_size(file, &size));
  CHECK(size == (MPI_Offset)(n * RECORDS * sizeof *all));
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == size);
  OK(MPI_File_get_position(file, &position));
  CHECK(position == 0);
  OK(MPI_File_read_at(file, 0, all, 2 * n * RECORDS, MPI_INT, &status));
  for (int i = 0; i < n * RECORDS; i++) CHECK(all[i].who < n && all[i].number == seen[all[i].who]++);
  /* All ranks together read the whole file, and nothing twice. */
  OK(MPI_File_seek_shared(file, -size, MPI_SEEK_END));
  for (got = 0;; got += count) {
    if (got % 4) {
      OK(MPI_File_read_shared(file, &mine, 2, MPI_INT, &status));
    } else {
      OK(MPI_File_iread_shared(file, &mine, 2, MPI_INT, &request));
      OK(MPI_Wait(&request, &status));
    }
    OK(MPI_Get_count(&status, MPI_INT, &count));
    if (count == 0) break;
    CHECK(mine.who < n && mine.number < RECORDS);
  }
  CHECK(sum_of(got) == 2 * n * RECORDS);
  OK(MPI_File_close(&file));
  free(all);
  free(seen);
}

/* Each rank writes one record more than its rank, one rank behind the other. */
static void in_order(void) {
  int *mine = malloc((me + 1) * sizeof *mine), count, first = me * (me + 1) / 2, all = n * (n + 1) / 2;
  MPI_Offset position;
  MPI_Status status;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  OK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for (int lap = 0; lap < 2; lap++) {
    for (int i = 0; i <= me; i++) mine[i] = 1000 * lap + first + i;
    if (lap) {
      OK(MPI_File_write_ordered_begin(file, mine, me + 1, MPI_INT));
      OK(MPI_File_write_ordered_end(file, mine, &status));
    } else {
      OK(MPI_File_write_ordered(file, mine, me + 1, MPI_INT, &status));
    }
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == me + 1);
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == 2 * all);
  for (int i = 0; i < 2 * all; i++) {
    int there;
    OK(MPI_File_read_at(file, i, &there, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(there == 1000 * (i / all) + i % all);
  }
  /* The pointer of another view begins at the view's beginning. */
  OK(MPI_File_set_view(file, 8 + all * (MPI_Offset)sizeof(int), MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == 0);
  OK(MPI_File_read_ordered(file, mine, me + 1, MPI_INT, &status));
  for (int i = 0; i <= me; i++) CHECK(mine[i] == 1000 + first + i);
  OK(MPI_File_seek_shared(file, -all, MPI_SEEK_CUR));
  OK(MPI_File_read_ordered_begin(file, mine, me + 1, MPI_INT));
  OK(MPI_File_read_ordered_end(file, mine, &status));
  for (int i = 0; i <= me; i++) CHECK(mine[i] == 1000 + first + i);
  OK(MPI_File_close(&file));
  free(mine);
}

/* Files that are appended to, and files that are read from beginning to end. */
static void appended_and_sequential(void) {
  int value = me, sum = 0, got, count;
  MPI_Offset position;
  MPI_Status status;
  MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
  OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, &status));
  is_class(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
  is_class(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
  is_class(MPI_File_get_position(file, &position), MPI_ERR_UNSUPPORTED_OPERATION);
  is_class(MPI_File_write(file, &value, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
  is_class(MPI_File_write_at(file, 0, &value, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
  OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  value += n;
  OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, &status));
  OK(MPI_File_close(&file));
  file = opened(MPI_MODE_RDWR | MPI_MODE_APPEND);
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == 2 * n * (MPI_Offset)sizeof(int));
  value = 2 * n + me;
  OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, &status));
  OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  for (int i = 0; i < 3; i++) {
    OK(MPI_File_read_ordered(file, &got, 1, MPI_INT, &status));
    CHECK(got == i * n + me);
  }
  OK(MPI_File_read_ordered(file, &got, 1, MPI_INT, &status));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  CHECK(count == 0);
  OK(MPI_File_close(&file));
  file = opened(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
  for (;;) {
    OK(MPI_File_read_shared(file, &got, 1, MPI_INT, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    if (count == 0) break;
    sum += got;
  }
  CHECK(sum_of(sum) == 3 * n * (3 * n - 1) / 2);
  OK(MPI_File_close(&file));
}

static void mistakes(void) {
  int value = me, got = -1;
  MPI_Offset position;
  MPI_Status status;
  MPI_File file;
  is_class(MPI_File_open(MPI_COMM_WORLD, path_, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file),
           MPI_ERR_AMODE);
  file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
  if (n > 1) is_class(MPI_File_seek_shared(file, me, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
  is_class(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  OK(MPI_File_seek_shared(file, 4, MPI_SEEK_SET));
  /* A rank that cannot write leaves no gap, and nobody waits for it. */
  if (me == n / 2) {
    is_class(MPI_File_write_ordered(file, &value, -1, MPI_INT, &status), MPI_ERR_COUNT);
  } else {
    OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, &status));
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == n * (MPI_Offset)sizeof(int));
  if (me != n / 2) {
    OK(MPI_File_read_at(file, 4 + (me - (me > n / 2)) * (MPI_Offset)sizeof(int), &got, 1, MPI_INT, &status));
    CHECK(got == me);
  }
  OK(MPI_File_write_ordered_begin(file, &value, 0, MPI_INT));
  is_class(MPI_File_read_ordered_begin(file, &value, 0, MPI_INT), MPI_ERR_OTHER);
  OK(MPI_File_write_ordered_end(file, &value, &status));
  OK(MPI_File_close(&file));
}

/* The files of the pointers are gone. */
static void nothing_is_left(void) {
  OK(MPI_Barrier(MPI_COMM_WORLD));
  DIR *directory = opendir(directory_);
  struct dirent *entry;
  CHECK(directory);
  while ((entry = readdir(directory)))
    CHECK(!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || entry->d_name[0] != '.');
  closedir(directory);
}

int main(int argc, char **argv) {
  void (*const parts[])(void) = {in_any_order, in_order, appended_and_sequential, mistakes};
  begin(&argc, &argv);
  me = rank_, n = size_;
  CHECK(argc > 1);
  directory_ = argv[1];
  snprintf(path_, sizeof path_, "%s/shared", directory_);
  for (int i = 0; i < 4; i++) {
    parts[i]();
    nothing_is_left();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (me == 0) OK(MPI_File_delete(path_, MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
  }
  return MPI_Finalize();
}
