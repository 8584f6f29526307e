/* Uses functions that the library lacks: the program must not compile and link. */
#include "check.h"

#ifdef DECLARED
int MPI_Psend_init(int);
#endif

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Psend_init(0);
  return MPI_Finalize();
}
