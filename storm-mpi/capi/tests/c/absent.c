/* Uses what the library has not: must not become a program. */
#include "check.h"

#ifdef DECLARED
int MPI_Win_fence(int, int);
#endif

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Win_fence(0, 0);
  return MPI_Finalize();
}
