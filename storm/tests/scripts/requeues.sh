#!/bin/bash
#SBATCH --requeue --open-mode=append -o out
# Not finished at first: the job puts itself back into the queue and goes on from its file.
if [ -e checkpoint ]; then
    echo "goes on from $(cat checkpoint), restart $SLURM_RESTART_COUNT"
    exit 0
fi
echo 17 > checkpoint
echo "first run, restart ${SLURM_RESTART_COUNT-unset}"
scontrol requeue "$SLURM_JOB_ID"
sleep 300
