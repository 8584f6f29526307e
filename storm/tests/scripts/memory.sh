#!/bin/bash
## run: sbatch -W memory.sh && sbatch -W --mem=0 -o all memory.sh && sbatch -W --mem-per-cpu=30M --mem=64M -o both memory.sh
#SBATCH --mem=1G -o out
echo "${SLURM_MEM_PER_NODE-none} ${SLURM_MEM_PER_CPU-none}"
