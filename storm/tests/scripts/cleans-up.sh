#!/bin/bash
#SBATCH -J main -o out
# The job submits its own cleaning, which runs whatever becomes of it.
sbatch -J clean -o cleaned -d afternotok:"$SLURM_JOB_ID" --wrap 'rm -f temporary && echo clean' |
    sed 's/[0-9]*$/N/'
touch temporary
exit 1
