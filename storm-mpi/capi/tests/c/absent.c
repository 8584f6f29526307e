/* Uses what the library has not: must not become a program. */
#include "check.h"

#ifdef DECLARED
int MPI_Ibcast(void *, int, MPI_Datatype, int, MPI_Comm, MPI_Request *);
#endif

int main(int argc, char **argv) {
  MPI_Request request;
  begin(&argc, &argv);
  MPI_Ibcast(&rank_, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
  return MPI_Finalize();
}
