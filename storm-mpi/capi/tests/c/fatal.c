/* Ends as its argument says. The other ranks wait for a message that never comes. */
#include "check.h"

int main(int argc, char **argv) {
  int value = 0;
  if (strcmp(argv[1], "before") == 0) MPI_Comm_rank(MPI_COMM_WORLD, &value);
  begin(&argc, &argv);
  if (rank_ == size_ - 1) {
    if (strcmp(argv[1], "error") == 0) MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    if (strcmp(argv[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 42);
    if (strcmp(argv[1], "exit") == 0) return 5;
    if (strcmp(argv[1], "code") == 0) {
      MPI_Add_error_code(MPI_ERR_OTHER, &value);
      MPI_Add_error_string(value, "out of cheese");
      MPI_Comm_call_errhandler(MPI_COMM_WORLD, value);
    }
    if (strcmp(argv[1], "twice") == 0) MPI_Init(&argc, &argv);
  }
  MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return MPI_Finalize();
}
