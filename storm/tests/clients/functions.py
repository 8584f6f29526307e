"""Functions as jobs and as an array, one that fails, and one that is interrupted, saves its state,
and goes on as a new run of its job."""

import time
from pathlib import Path

import submitit


def add(a, b):
    return a + b


def fail():
    raise ValueError("on purpose")


class Count:
    """Counts to ten, and waits on its way for the interruption."""

    def __init__(self):
        self.reached = 0
        self.runs = 1

    def __call__(self):
        while self.reached < 10:
            self.reached += 1
            if self.reached == 5 and self.runs == 1:
                Path("half").touch()
                time.sleep(300)
        return self.runs, self.reached

    def checkpoint(self):
        again = Count()
        again.reached, again.runs = self.reached, self.runs + 1
        return submitit.helpers.DelayedSubmission(again)


executor = submitit.AutoExecutor(folder="log", cluster="slurm")
executor.update_parameters(timeout_min=5, mem_gb=0.2, slurm_array_parallelism=2)
one = executor.submit(add, 5, 7)
many = executor.map_array(add, range(4), range(10, 14))
wrong = executor.submit(fail)
counts = executor.submit(Count())
while not Path("half").exists():
    time.sleep(0.1)
counts._interrupt()

print("one", one.result(), one.state)
print("many", *(job.result() for job in many))
print("runs and count", *counts.result())
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
