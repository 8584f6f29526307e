#!/bin/sh
## run: sbatch --wait -o out < standard-input.sh
#SBATCH -n 1
echo "$0" | sed 's/.*slurm_script.*/a copy/'
cat
echo "nothing came from the terminal: $?"
