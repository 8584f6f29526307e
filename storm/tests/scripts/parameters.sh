#!/bin/bash
#SBATCH --array=0-5
#SBATCH --output=grid-%a.txt

# A grid of parameters from one index.
rates=(0.1 0.01 0.001)
sizes=(16 32)
rate=${rates[$((SLURM_ARRAY_TASK_ID % 3))]}
size=${sizes[$((SLURM_ARRAY_TASK_ID / 3))]}
echo "rate=$rate size=$size"
