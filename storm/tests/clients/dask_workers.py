"""Four workers, each a job on a node of its own, compute together. Then three leave, then all."""

from dask_jobqueue import SLURMCluster
from distributed import Client


def square(number):
    return number * number


with SLURMCluster(
    cores=2,
    processes=1,
    memory="400MB",
    walltime="00:10:00",
    interface="eth0",
    log_directory="logs",
    job_extra_directives=["--exclusive"],
) as cluster:
    cluster.scale(jobs=4)
    with Client(cluster) as client:
        client.wait_for_workers(4, timeout=90)
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        print("workers on", *sorted(worker["host"] for worker in workers))
        squares = client.map(square, range(100), pure=False)
        print("sum", client.submit(sum, squares).result(timeout=60))
        cluster.scale(jobs=1)
        while len(client.scheduler_info(n_workers=-1)["workers"]) > 1:
            client.sync(cluster._correct_state)
        print("one left")
