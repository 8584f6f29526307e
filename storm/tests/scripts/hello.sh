#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --output=%x.out
#SBATCH --error=%x.err
#SBATCH --time=00:05:00
#SBATCH --ntasks=1
#SBATCH --mem=100M

echo "Hello from job $SLURM_JOB_NAME on $SLURM_JOB_NUM_NODES node, $SLURM_NTASKS task"
echo "and a word for the other file" >&2
