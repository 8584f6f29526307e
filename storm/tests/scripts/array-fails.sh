#!/bin/bash
#SBATCH --array=1,3,7
#SBATCH --output=/dev/null
# One of the tasks fails; the others are not touched by it.
if [ "$SLURM_ARRAY_TASK_ID" -eq 3 ]; then exit 4; fi
