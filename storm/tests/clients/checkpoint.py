"""A function that is interrupted by a signal saves its state, puts its job back into the queue, and
goes on as a new run of it."""

import time
from pathlib import Path

import submitit


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
executor.update_parameters(timeout_min=5, mem_gb=0.2)
counts = executor.submit(Count())
while not Path("half").exists():
    time.sleep(0.1)
counts._interrupt()
print("runs and count", *counts.result())
