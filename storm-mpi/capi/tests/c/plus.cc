// mpi.h in C++.
#include <mpi.h>
#include <vector>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<double> all(size);
  double mine = rank;
  MPI_Allgather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int r = 0; r < size; r++)
    if (all[r] != r) MPI_Abort(MPI_COMM_WORLD, 3);
  return MPI_Finalize();
}
