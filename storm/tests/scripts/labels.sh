#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 -o out
srun -l sh -c 'echo "$SLURM_LOCALID on node $SLURM_NODEID"' | sort
srun -N 1 -n 1 -o step-%s-%t.out sh -c 'echo "step $SLURM_STEP_ID"'
echo input | srun -n 2 sh -c 'cat | wc -w' | sort -n
srun -n 1 --export=ALL,EXTRA=7 sh -c 'echo $EXTRA'
srun -n 1 -D / pwd
