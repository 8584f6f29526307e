#!/bin/bash
#SBATCH --job-name=cavity
#SBATCH --ntasks=4 --nodes=2
#SBATCH --output=log
# Decompose on one process, solve on all, put together.
set -e
for i in $(seq 0 $((SLURM_NTASKS - 1))); do mkdir "processor$i"; done
srun -n "$SLURM_NTASKS" sh -c 'echo "cells $((SLURM_PROCID * 10))" > processor$SLURM_PROCID/field'
srun -n 1 -N 1 sh -c 'cat processor*/field'
rm -r processor*
