#!/bin/bash
## run: sbatch -W memory.sh && sbatch -W --mem-per-cpu=30M -o each memory.sh
#SBATCH --mem=100M -o out
echo "${SLURM_MEM_PER_NODE-none} ${SLURM_MEM_PER_CPU-none}"
