"""An array, a job after it, a job that waits and is cancelled, and srun."""

import datetime
import pathlib
import time

from simple_slurm import Slurm

job = Slurm(
    array=range(3, 6),
    cpus_per_task=1,
    job_name="many",
    output=f"{Slurm.JOB_ARRAY_MASTER_ID}_{Slurm.JOB_ARRAY_ID}.out",
    time=datetime.timedelta(minutes=5),
)
array = job.sbatch("echo " + Slurm.SLURM_ARRAY_TASK_ID, verbose=False)

after = Slurm("-o", "after.out", dependency=dict(afterok=array), parsable="")
after.add_cmd("cat [0-9]*_*.out | wc -l > all")
after.sbatch(verbose=False, sbatch_cmd="sbatch --wait")
print("array", *sorted(path.read_text().strip() for path in pathlib.Path().glob(f"{array}_*.out")))
print("after them:", "all" if pathlib.Path("all").read_text().strip() == "3" else "some")

later = Slurm("-J", "later", begin="now+1hour", time="2:03:00", output="/dev/null")
waits = later.sbatch("true", verbose=False)
later.squeue.update_squeue()
row = later.squeue.jobs[waits]
print("listed", row["ST"], row["NAME"], row["TIME_LEFT"])
later.scancel.cancel_job(waits)
while waits in later.squeue.jobs:
    later.squeue.update_squeue()
    time.sleep(0.1)
print("cancelled")

step = Slurm("-n", "2", "-o", "step-%t")
step.srun("sh -c 'echo $SLURM_PROCID'")
print("srun", *(pathlib.Path(f"step-{rank}").read_text().strip() for rank in range(2)))
