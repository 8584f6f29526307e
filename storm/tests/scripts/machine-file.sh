#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=2 --output=out
# A list of machines for a program with a launcher of its own.
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    for _ in $(seq "${SLURM_NTASKS_PER_NODE}"); do echo "$node"; done
done > machines
wc -l < machines
sort -u machines | wc -l
echo "$SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE"
rm machines
