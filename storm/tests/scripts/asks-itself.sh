#!/bin/bash
#SBATCH -n 2 -N 2 -t 1:30:00 -J asks -o out
squeue -h -j "$SLURM_JOB_ID" -o '%j %T %D %l'
squeue -h --me -n asks -o %t
scontrol show job "$SLURM_JOB_ID" | grep -oE '(NumNodes|JobName|TimeLimit|Restarts)=[^ ]*'
