#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2 -o out
srun -l sh -c 'echo "$SLURM_LOCALID on node $SLURM_NODEID"' | sort
srun -N 1 -n 1 -o step-%s-%t.out sh -c 'echo "step $SLURM_STEP_ID"'
echo one input | srun -n 1 -N 1 wc -w
srun -n 1 -N 1 --export=ALL,EXTRA=7 sh -c 'echo $EXTRA'
srun -n 1 -N 1 -D / pwd
