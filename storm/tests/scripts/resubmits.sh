#!/bin/bash
## run: sbatch resubmits.sh 1; until [ -e done ]; do sleep 0.1; done
#SBATCH --job-name=again
#SBATCH --output=progress
#SBATCH --open-mode=append
# A job that submits its own continuation.
echo "part $1"
if [ "$1" -lt 3 ]; then
    sbatch --parsable --dependency=afterany:"$SLURM_JOB_ID" resubmits.sh $(($1 + 1)) > /dev/null
else
    touch done
fi
