/* An MPI program whose first argument says what it does: see main.rs. */
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VECTOR = 1 << 20 };

static int rank, size;

static void ring(void)
{
    int token = 1, left = (rank + size - 1) % size, right = (rank + 1) % size;
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        printf("ring %d\n", token);
        return;
    }
    token++;
    MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
}

/* Rank 1 ends; the other, on the same node, goes on when there is nothing left of it. */
static void outlive(const char *own)
{
    char path[4096], ready[4096 + 8];
    int pid = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/outlived", getenv("STORM_JOB_DIR"));
    snprintf(ready, sizeof ready, "%s.tmp", path);
    if (strcmp(own, "1") == 0) {
        file = fopen(ready, "w");
        fprintf(file, "%d", (int)getpid());
        fclose(file);
        rename(ready, path);
        exit(0);
    }
    while ((file = fopen(path, "r")) == NULL)
        sched_yield();
    if (fscanf(file, "%d", &pid) != 1)
        exit(2);
    fclose(file);
    while (kill(pid, 0) == 0)
        sched_yield();
}

static void allreduce(void)
{
    double *own = malloc(VECTOR * sizeof *own), *sum = malloc(VECTOR * sizeof *sum);
    int i, wrong = 0;
    for (i = 0; i < VECTOR; i++)
        own[i] = rank + (double)i;
    MPI_Allreduce(own, sum, VECTOR, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < VECTOR; i++)
        wrong += sum[i] != size * (size - 1) / 2 + (double)size * i;
    printf("rank %d: %d wrong\n", rank, wrong);
}

static void shared(void)
{
    MPI_Comm node;
    int here, shared_by;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &here);
    MPI_Comm_size(node, &shared_by);
    printf("rank %d: %d of %d, told %s of %s\n", rank, here, shared_by,
           getenv("MPI_LOCALRANKID"), getenv("MPI_LOCALNRANKS"));
    MPI_Comm_free(&node);
}

static void report(const char *what, int error)
{
    printf("rank %d: %s %s\n", rank, what, error == MPI_SUCCESS ? "done" : "refused");
}

static void spawn(void)
{
    MPI_Comm children;
    int codes[2];
    report("spawn", MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0,
                                   MPI_COMM_WORLD, &children, codes));
}

static void names(void)
{
    char port[MPI_MAX_PORT_NAME] = "port";
    report("publish", MPI_Publish_name("service", MPI_INFO_NULL, port));
    report("lookup", MPI_Lookup_name("service", MPI_INFO_NULL, port));
}

static void quit(void)
{
    if (rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What Open MPI is told by whoever starts it. */
static void killed(void)
{
    const char *directory = getenv("OMPI_MCA_btl_vader_backing_directory");
    if (rank == 0) {
        printf("shared memory in %s\n", directory ? directory : "an unknown place");
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        raise(SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A job from inside of this one. */
static void submits(void)
{
    const char *command = getenv("SUBMITS");
    fflush(stdout);
    if (rank == 0 && (command == NULL || system(command) != 0))
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void waits(void)
{
    struct timespec ever = { 1000, 0 };
    printf("rank %d waits\n", rank);
    fflush(stdout);
    nanosleep(&ever, NULL);
}

/* MPICH 4.0 over UCX's TCP may never return from MPI_Finalize, under its own launcher
 * too, when a peer is in it earlier and connections are still being made: all are made
 * here, and have some time to settle. */
static void settle(void)
{
    struct timespec pause = { 0, 200 * 1000 * 1000 };
    int distance, round;
    for (round = 0; round < 3; round++)
        for (distance = 1; distance < size; distance++) {
            int own = rank, other;
            MPI_Sendrecv(&own, 1, MPI_INT, (rank + distance) % size, 1, &other, 1, MPI_INT,
                         (rank + size - distance) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
    const struct { const char *name; void (*run)(void); } all[] = {
        { "ring", ring }, { "allreduce", allreduce }, { "shared", shared },
        { "spawn", spawn }, { "names", names }, { "quit", quit },
        { "killed", killed }, { "waits", waits }, { "submits", submits },
    };
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    size_t i;
    const char *own = getenv("STORM_RANK");
    if (argc > 1 && strcmp(argv[1], "absent") == 0 && own && strcmp(own, "1") == 0)
        return 0;
    if (argc > 1 && strcmp(argv[1], "outlive") == 0 && own)
        outlive(own);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Get_library_version(version, &length);
    if (argc > 1 && strcmp(argv[1], "hello") == 0)
        printf("rank %d of %d\n", rank, size);
    else if (argc > 1 && strcmp(argv[1], "version") == 0)
        printf("%s\n", version);
    else
        for (i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
            if (strcmp(argv[1], all[i].name) == 0) {
                all[i].run();
                settle();
            }
    MPI_Finalize();
    return 0;
}
