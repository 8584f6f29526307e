/* Defines functions of the library itself, as a profiler does. The others are the library's. */
#include "check.h"

static int sends, bytes, barriers;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  int size;
  int result = PMPI_Type_size(datatype, &size);
  if (result == MPI_SUCCESS) {
    sends++;
    bytes += count * size;
    result = PMPI_Send(buf, count, datatype, dest, tag, comm);
  }
  return result;
}

int MPI_Barrier(MPI_Comm comm) {
  barriers++;
  return PMPI_Barrier(comm);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_, mine = rank_, got = -1;
  for (int lap = 0; lap < 3; lap++) {
    if (rank_ % 2 == 0 && size_ > 1) OK(MPI_Send(&mine, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
    if (size_ > 1) OK(MPI_Recv(&got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (rank_ % 2 == 1) OK(MPI_Send(&mine, 1, MPI_INT, next, 0, MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
  }
  CHECK(size_ == 1 || got == before);
  /* The library's own calls do not go to the program's functions. */
  OK(MPI_Allreduce(&rank_, &got, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  CHECK(got == size_ - 1);
  CHECK(sends == (size_ > 1 ? 3 : 0) && bytes == sends * (int)sizeof(int) && barriers == 3);
  CHECK(PMPI_Wtime() <= MPI_Wtime() && PMPI_Wtick() > 0);
  OK(PMPI_Barrier(MPI_COMM_WORLD));
  CHECK(barriers == 3);
  return PMPI_Finalize();
}
