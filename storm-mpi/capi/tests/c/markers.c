/* MPI_LB and MPI_UB, with the functions of MPI-1 that go with them. */
#include "check.h"

static void bounds(MPI_Datatype type, MPI_Aint lower, MPI_Aint upper, int bytes) {
  MPI_Aint lb, ub, extent, lb2, extent2;
  int size;
  OK(MPI_Type_lb(type, &lb));
  OK(MPI_Type_ub(type, &ub));
  OK(MPI_Type_extent(type, &extent));
  OK(MPI_Type_get_extent(type, &lb2, &extent2));
  OK(MPI_Type_size(type, &size));
  CHECK(lb == lower && ub == upper && extent == upper - lower && size == bytes);
  CHECK(lb2 == lb && extent2 == extent);
}

/* The examples of MPI-1.1, section 3.12.3. */
static void nested(void) {
  MPI_Datatype type1, type2, type3, type4;
  int three[] = {1, 1, 1};
  MPI_Aint at[] = {-3, 0, 6}, far[] = {0, 40};
  MPI_Datatype of[] = {MPI_LB, MPI_INT, MPI_UB};
  OK(MPI_Type_struct(3, three, at, of, &type1));
  bounds(type1, -3, 6, 4);
  OK(MPI_Type_contiguous(2, type1, &type2));
  bounds(type2, -3, 15, 8);
  MPI_Datatype with[] = {type1, MPI_DOUBLE};
  OK(MPI_Type_create_struct(2, three, far, with, &type3));
  bounds(type3, -3, 6, 12);
  OK(MPI_Type_hvector(2, 1, 100, type3, &type4));
  bounds(type4, -3, 106, 24);
  int integers, addresses, types, combiner;
  OK(MPI_Type_get_envelope(type1, &integers, &addresses, &types, &combiner));
  CHECK(integers == 4 && addresses == 3 && types == 3 && combiner == MPI_COMBINER_STRUCT);
  OK(MPI_Type_get_envelope(MPI_UB, &integers, &addresses, &types, &combiner));
  CHECK(combiner == MPI_COMBINER_NAMED);
  OK(MPI_Type_free(&type4));
  OK(MPI_Type_free(&type3));
  OK(MPI_Type_free(&type2));
  OK(MPI_Type_free(&type1));
}

/* A column of a matrix. The next column begins one number further. */
static void columns(void) {
  enum { ROWS = 4, COLUMNS = 3 };
  double matrix[ROWS][COLUMNS], turned[COLUMNS][ROWS];
  MPI_Datatype column, stepping;
  int one[] = {1, 1}, to = (rank_ + 1) % size_, from = (rank_ + size_ - 1) % size_;
  MPI_Aint at[] = {0, sizeof(double)};
  for (int r = 0; r < ROWS; r++) {
    for (int c = 0; c < COLUMNS; c++) matrix[r][c] = 100 * rank_ + 10 * r + c;
  }
  OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column));
  MPI_Datatype of[] = {column, MPI_UB};
  OK(MPI_Type_struct(2, one, at, of, &stepping));
  OK(MPI_Type_commit(&stepping));
  bounds(stepping, 0, sizeof(double), ROWS * sizeof(double));
  OK(MPI_Sendrecv(matrix, COLUMNS, stepping, to, 1, turned, ROWS * COLUMNS, MPI_DOUBLE, from, 1,
                  MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (int r = 0; r < ROWS; r++) {
    for (int c = 0; c < COLUMNS; c++) CHECK(turned[c][r] == 100 * from + 10 * r + c);
  }
  OK(MPI_Type_free(&stepping));
  OK(MPI_Type_free(&column));
}

/* Particles of which only some parts travel, in an array of whole particles. */
static void particles(void) {
  struct particle {
    char kind;
    double place[3];
    int unsent[5];
  } some[3] = {{0}}, got[3] = {{0}};
  int lengths[] = {1, 1, 3, 1};
  MPI_Aint at[4], start;
  MPI_Datatype of[] = {MPI_LB, MPI_CHAR, MPI_DOUBLE, MPI_UB}, type;
  MPI_Status status;
  int count, elements;
  OK(MPI_Address(&some[0], &start));
  OK(MPI_Address(&some[0].kind, &at[1]));
  OK(MPI_Address(&some[0].place, &at[2]));
  OK(MPI_Address(&some[1], &at[3]));
  at[0] = start;
  for (int i = 0; i < 4; i++) at[i] -= start;
  OK(MPI_Type_struct(4, lengths, at, of, &type));
  OK(MPI_Type_commit(&type));
  bounds(type, 0, sizeof(struct particle), 1 + 3 * sizeof(double));
  for (int i = 0; i < 3; i++) {
    some[i].kind = 'a' + i;
    some[i].place[2] = i + 0.5;
    some[i].unsent[0] = 1;
  }
  MPI_Request request;
  OK(MPI_Isend(some, 3, type, rank_, 2, MPI_COMM_WORLD, &request));
  OK(MPI_Recv(got, 3, type, rank_, 2, MPI_COMM_WORLD, &status));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Get_count(&status, type, &count));
  OK(MPI_Get_elements(&status, type, &elements));
  CHECK(count == 3 && elements == 12);
  for (int i = 0; i < 3; i++) {
    CHECK(got[i].kind == 'a' + i && got[i].place[2] == i + 0.5 && got[i].unsent[0] == 0);
  }
  OK(MPI_Type_free(&type));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  bounds(MPI_LB, 0, 0, 0);
  bounds(MPI_UB, 0, 0, 0);
  nested();
  columns();
  particles();
  OK(MPI_Finalize());
  return 0;
}
