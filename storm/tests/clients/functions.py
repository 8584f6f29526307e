"""Functions as jobs and as an array, one that fails, four processes on two nodes, and a job that is
cancelled."""

import time

import submitit


def add(a, b):
    return a + b


def fail():
    raise ValueError("on purpose")


executor = submitit.AutoExecutor(folder="log", cluster="slurm")
executor.update_parameters(timeout_min=5, mem_gb=0.2, slurm_array_parallelism=2)
one = executor.submit(add, 5, 7)
many = executor.map_array(add, range(4), range(10, 14))
wrong = executor.submit(fail)

result = one.result()
# The result is there before the job has ended.
while one.state in ("RUNNING", "COMPLETING"):
    time.sleep(0.1)
print("one", result, one.state)
print("many", *(job.result() for job in many))
try:
    wrong.result()
except submitit.core.utils.FailedJobError as error:
    print("wrong", "on purpose" in str(error))

executor.update_parameters(nodes=2, tasks_per_node=2)


def place():
    here = submitit.JobEnvironment()
    return here.global_rank, here.local_rank, here.node, here.num_tasks, here.num_nodes


print("places", *sorted(executor.submit(place).results()))

executor.update_parameters(nodes=1, tasks_per_node=1)
endless = executor.submit(time.sleep, 300)
while endless.state != "RUNNING":
    time.sleep(0.1)
endless.cancel()
while not endless.done(force_check=True):
    time.sleep(0.1)
print("endless", endless.state.split()[0])
