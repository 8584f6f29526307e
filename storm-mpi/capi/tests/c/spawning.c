/* New processes are not supported: each function fails with the standard's error class. */
#include "check.h"

int main(int argc, char **argv) {
  char port[MPI_MAX_PORT_NAME] = "none", *commands[] = {"none", "none"};
  int codes[3] = {0, 0, 0}, counts[] = {1, 2};
  MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm world = MPI_COMM_WORLD, made = world, parent = world;
  MPI_Info none = MPI_INFO_NULL;
  begin(&argc, &argv);
  OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
  OK(MPI_Comm_get_parent(&parent));
  CHECK(parent == MPI_COMM_NULL);
  CHECK(MPI_Comm_spawn("none", MPI_ARGV_NULL, 2, none, 0, world, &made, codes) == MPI_ERR_SPAWN);
  CHECK(made == MPI_COMM_NULL && codes[2] == 0);
  if (rank_ == 0) CHECK(codes[0] == MPI_ERR_SPAWN && codes[1] == MPI_ERR_SPAWN);
  CHECK(MPI_Comm_spawn("none", MPI_ARGV_NULL, 2, none, 0, world, &made, MPI_ERRCODES_IGNORE) == MPI_ERR_SPAWN);
  CHECK(MPI_Comm_spawn("none", MPI_ARGV_NULL, 2, none, size_, world, &made, codes) == MPI_ERR_ROOT);
  CHECK(MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, world, &made, codes) == MPI_ERR_SPAWN);
  if (rank_ == 0) CHECK(codes[2] == MPI_ERR_SPAWN);
  CHECK(MPI_Open_port(none, port) == MPI_ERR_PORT && MPI_Close_port(port) == MPI_ERR_PORT);
  made = world;
  CHECK(MPI_Comm_accept(port, none, 0, world, &made) == MPI_ERR_PORT && made == MPI_COMM_NULL);
  CHECK(MPI_Comm_connect(port, none, 0, world, &made) == MPI_ERR_PORT);
  CHECK(MPI_Comm_join(0, &made) == MPI_ERR_OTHER);
  CHECK(MPI_Publish_name("name", none, port) == MPI_ERR_SERVICE);
  CHECK(MPI_Unpublish_name("name", none, port) == MPI_ERR_SERVICE);
  CHECK(MPI_Lookup_name("name", none, port) == MPI_ERR_NAME);
  return MPI_Finalize();
}
