#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 -c 1 -J vars -o out -t 10 --mem-per-cpu=50
for name in JOB_NAME NTASKS NPROCS NNODES JOB_NUM_NODES NTASKS_PER_NODE CPUS_PER_TASK \
    JOB_CPUS_PER_NODE TASKS_PER_NODE CPUS_ON_NODE MEM_PER_CPU MEM_PER_NODE PROCID LOCALID NODEID \
    ARRAY_TASK_ID RESTART_COUNT; do
    variable=SLURM_$name
    echo "$name=${!variable-unset}"
done
[ "$SLURM_JOB_ID" = "$SLURM_JOBID" ] && echo one number
[ "$SLURM_JOB_NODELIST" = "$SLURM_NODELIST" ] && echo one list
[ "$SLURM_SUBMIT_DIR" = "$PWD" ] && echo in the directory of the submission
[ "$SLURM_JOB_UID" = "$(id -u)" ] && [ "$SLURM_JOB_USER" = "$(id -un)" ] && echo as oneself
scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l
[ "$(scontrol show hostnames | head -n 1)" = "$SLURMD_NODENAME" ] && echo on the first node
