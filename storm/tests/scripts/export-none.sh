#!/bin/sh
## run: MINE=1 sbatch --wait --export=NONE export-none.sh
#SBATCH -o out
echo "${MINE-unset} ${PATH:+path} ${SLURM_JOB_ID:+id}"
