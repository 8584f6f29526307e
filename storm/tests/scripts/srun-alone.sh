#!/bin/bash
## run: bash srun-alone.sh
# srun outside of a job makes a job of its own.
srun -Q -n 4 -l echo hello | sort
srun -Q -N 2 --ntasks-per-node=1 sh -c 'echo $SLURM_NNODES $SLURM_NTASKS' | uniq
srun -Q -n 1 sh -c 'exit 5' 2>/dev/null
echo "status $?"
