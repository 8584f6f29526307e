/* Derived datatypes: sent from their own memory, and received into it. Two ranks and more. */
#include "check.h"
#include <stddef.h>

static int next_, previous_;

static void sent_round(const void *out, int count, MPI_Datatype type, void *in, int incount,
                       MPI_Datatype intype) {
  MPI_Status status;
  int elements, expected;
  OK(MPI_Sendrecv(out, count, type, next_, 1, in, incount, intype, previous_, 1, MPI_COMM_WORLD,
                  &status));
  OK(MPI_Get_count(&status, type, &elements));
  CHECK(elements == count);
  OK(MPI_Type_size(type, &expected));
  OK(MPI_Get_elements(&status, MPI_BYTE, &elements));
  CHECK(elements == count * expected);
}

enum { ROWS = 7, COLUMNS = 5 };

static void columns(void) {
  double matrix[ROWS][COLUMNS], in[ROWS], other[ROWS][COLUMNS];
  MPI_Datatype column, narrow;
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) {
      matrix[i][j] = 1000 * rank_ + 10 * i + j;
      other[i][j] = -1;
    }
  OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column));
  OK(MPI_Type_commit(&column));
  sent_round(&matrix[0][2], 1, column, in, ROWS, MPI_DOUBLE);
  for (int i = 0; i < ROWS; i++) CHECK(in[i] == 1000 * previous_ + 10 * i + 2);
  sent_round(&matrix[0][1], 1, column, &other[0][3], 1, column);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++)
      CHECK(other[i][j] == (j == 3 ? 1000 * previous_ + 10 * i + 1 : -1));
  /* Columns one after the other: a transposition. */
  MPI_Aint lb, extent;
  OK(MPI_Type_create_resized(column, 0, sizeof(double), &narrow));
  OK(MPI_Type_commit(&narrow));
  OK(MPI_Type_get_extent(narrow, &lb, &extent));
  CHECK(lb == 0 && extent == sizeof(double));
  OK(MPI_Type_get_true_extent(narrow, &lb, &extent));
  CHECK(lb == 0 && extent == ((ROWS - 1) * COLUMNS + 1) * sizeof(double));
  double turned[COLUMNS][ROWS];
  sent_round(matrix, COLUMNS, narrow, turned, ROWS * COLUMNS, MPI_DOUBLE);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) CHECK(turned[j][i] == 1000 * previous_ + 10 * i + j);
  /* Derived datatypes in collectives. */
  OK(MPI_Bcast(&matrix[0][4], 1, column, 0, MPI_COMM_WORLD));
  for (int i = 0; i < ROWS; i++) CHECK(matrix[i][4] == 10 * i + 4 && matrix[i][3] == 1000 * rank_ + 10 * i + 3);
  double *all = malloc(size_ * ROWS * sizeof(double));
  OK(MPI_Allgather(&matrix[0][0], 1, column, all, ROWS, MPI_DOUBLE, MPI_COMM_WORLD));
  for (int r = 0; r < size_; r++)
    for (int i = 0; i < ROWS; i++) CHECK(all[r * ROWS + i] == 1000 * r + 10 * i);
  free(all);
  OK(MPI_Type_free(&column));
  OK(MPI_Type_free(&narrow));
  CHECK(column == MPI_DATATYPE_NULL);
}

typedef struct {
  char kind;
  double position[3];
  int id;
} Particle;

static void structures(void) {
  Particle out[4], in[4];
  memset(in, 0, sizeof in);
  for (int i = 0; i < 4; i++)
    out[i] = (Particle){(char)('a' + i), {rank_, i, 0.5}, 100 * rank_ + i};
  int lengths[] = {1, 3, 1};
  MPI_Aint places[3], start;
  MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, type;
  OK(MPI_Get_address(&out[0], &start));
  OK(MPI_Get_address(&out[0].kind, &places[0]));
  OK(MPI_Get_address(&out[0].position, &places[1]));
  OK(MPI_Get_address(&out[0].id, &places[2]));
  for (int i = 0; i < 3; i++) places[i] -= start;
  OK(MPI_Type_create_struct(3, lengths, places, types, &type));
  OK(MPI_Type_commit(&type));
  MPI_Aint lb, extent;
  int size;
  OK(MPI_Type_get_extent(type, &lb, &extent));
  OK(MPI_Type_size(type, &size));
  CHECK(lb == 0 && extent == sizeof(Particle) && size == 29);
  sent_round(out, 4, type, in, 4, type);
  for (int i = 0; i < 4; i++)
    CHECK(in[i].kind == 'a' + i && in[i].position[0] == previous_ && in[i].position[1] == i &&
          in[i].id == 100 * previous_ + i);
  OK(MPI_Type_free(&type));
  /* Absolute addresses, from MPI_BOTTOM. */
  int here = 7 + rank_, there = 9 + rank_, got[2];
  OK(MPI_Get_address(&here, &places[0]));
  OK(MPI_Get_address(&there, &places[1]));
  int ones[] = {1, 1};
  OK(MPI_Type_create_hindexed(2, ones, places, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  sent_round(MPI_BOTTOM, 1, type, got, 2, MPI_INT);
  CHECK(got[0] == 7 + previous_ && got[1] == 9 + previous_);
  OK(MPI_Type_free(&type));
}

static void parts(void) {
  int grid[6][8], in[6];
  for (int i = 0; i < 48; i++) grid[i / 8][i % 8] = 100 * rank_ + i;
  int sizes[] = {6, 8}, subsizes[] = {2, 3}, starts[] = {1, 4};
  MPI_Datatype type;
  OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  sent_round(grid, 1, type, in, 6, MPI_INT);
  for (int i = 0; i < 6; i++) CHECK(in[i] == 100 * previous_ + (1 + i / 3) * 8 + 4 + i % 3);
  OK(MPI_Type_free(&type));
  int lengths[] = {2, 0, 1}, displs[] = {5, 1, 40};
  OK(MPI_Type_indexed(3, lengths, displs, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  sent_round(grid, 1, type, in, 3, MPI_INT);
  CHECK(in[0] == 100 * previous_ + 5 && in[1] == 100 * previous_ + 6);
  CHECK(in[2] == 100 * previous_ + 40);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_create_indexed_block(2, 2, displs, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  sent_round(grid, 1, type, in, 4, MPI_INT);
  CHECK(in[0] == 100 * previous_ + 5 && in[2] == 100 * previous_ + 1);
  OK(MPI_Type_free(&type));
}

/* Blocks with gaps in non-blocking and persistent messages, larger than what goes eagerly. */
static void under_way(void) {
  enum { N = 20000 };
  int *out = malloc(2 * N * sizeof(int)), *in = malloc(2 * N * sizeof(int));
  MPI_Datatype even;
  MPI_Request requests[2];
  OK(MPI_Type_vector(N, 1, 2, MPI_INT, &even));
  OK(MPI_Type_commit(&even));
  OK(MPI_Recv_init(in, 1, even, previous_, 3, MPI_COMM_WORLD, &requests[0]));
  OK(MPI_Send_init(out, 1, even, next_, 3, MPI_COMM_WORLD, &requests[1]));
  /* A freed type lives on in the types that are made of it. */
  OK(MPI_Type_free(&even));
  for (int lap = 0; lap < 3; lap++) {
    for (int i = 0; i < 2 * N; i++) {
      out[i] = rank_ * 7 + i + lap;
      in[i] = -1;
    }
    OK(MPI_Startall(2, requests));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2 * N; i++) CHECK(in[i] == (i % 2 ? -1 : previous_ * 7 + i + lap));
  }
  OK(MPI_Request_free(&requests[0]));
  OK(MPI_Request_free(&requests[1]));
  free(out);
  free(in);
}

static void packing(void) {
  char buffer[200], got[200];
  int position = 0, number = 42 + rank_, size;
  double values[3] = {1.5, rank_, -2};
  OK(MPI_Pack_size(3, MPI_DOUBLE, MPI_COMM_WORLD, &size));
  CHECK(size >= (int)sizeof values);
  OK(MPI_Pack(&number, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
  OK(MPI_Pack(values, 3, MPI_DOUBLE, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
  sent_round(buffer, position, MPI_PACKED, got, sizeof got, MPI_PACKED);
  int at = 0, other = 0;
  OK(MPI_Unpack(got, sizeof got, &at, &other, 1, MPI_INT, MPI_COMM_WORLD));
  OK(MPI_Unpack(got, sizeof got, &at, values, 3, MPI_DOUBLE, MPI_COMM_WORLD));
  CHECK(other == 42 + previous_ && values[1] == previous_ && values[2] == -2 && at == position);
}

static void names(void) {
  char name[MPI_MAX_OBJECT_NAME];
  int length, size;
  MPI_Datatype mine, copy;
  OK(MPI_Type_get_name(MPI_DOUBLE, name, &length));
  CHECK(strcmp(name, "MPI_DOUBLE") == 0 && length == 10);
  OK(MPI_Type_contiguous(3, MPI_SHORT, &mine));
  OK(MPI_Type_set_name(mine, "three"));
  OK(MPI_Type_get_name(mine, name, &length));
  CHECK(strcmp(name, "three") == 0);
  OK(MPI_Type_dup(mine, &copy));
  OK(MPI_Type_size(copy, &size));
  CHECK(size == 6);
  OK(MPI_Type_free(&mine));
  OK(MPI_Type_free(&copy));
  static const struct { MPI_Datatype type; int size; } known[] = {
      {MPI_CHAR, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_LONG, sizeof(long)},
      {MPI_LONG_DOUBLE, sizeof(long double)}, {MPI_DOUBLE_INT, 12}, {MPI_C_BOOL, 1},
      {MPI_2REAL, 8}, {MPI_2DOUBLE_PRECISION, 16}};
  for (int i = 0; i < 9; i++) {
    OK(MPI_Type_size(known[i].type, &size));
    CHECK(size == known[i].size);
  }
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  next_ = (rank_ + 1) % size_;
  previous_ = (rank_ + size_ - 1) % size_;
  columns();
  structures();
  parts();
  under_way();
  packing();
  names();
  return MPI_Finalize();
}
