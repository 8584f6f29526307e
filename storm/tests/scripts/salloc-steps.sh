#!/bin/bash
## run: bash salloc-steps.sh
# An allocation for a command of the user's host, which starts steps in it.
salloc -Q -N 2 --ntasks-per-node=2 bash -c '
    echo "$SLURM_NNODES nodes, $SLURM_NTASKS_PER_NODE each"
    srun sh -c "echo process \$SLURM_PROCID" | sort
    exit 3'
echo "status $?"
