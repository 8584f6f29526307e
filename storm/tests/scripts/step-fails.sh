#!/bin/bash
#SBATCH -n 2 -N 1 -o out -e /dev/null
# A step that fails leaves the decision to the script.
srun -n 2 sh -c 'exit $((SLURM_PROCID * 3))'
echo "first step: $?"
srun -n 1 true
echo "second step: $?"
srun -n 1 no-such-program
echo "third step: $?"
srun -n 1 sh -c 'kill -9 $$'
echo "fourth step: $?"
srun -n 1 false
