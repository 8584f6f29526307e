#!/bin/sh
## run: sbatch --wait -o out < standard-input.sh
#SBATCH -n 1
# The script came by standard input; the job's own input is empty.
cat
echo "input ended with $?"
