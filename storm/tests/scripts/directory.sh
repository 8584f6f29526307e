#!/bin/sh
## run: mkdir -p data/run1 && sbatch --wait -D data/run1 directory.sh
#SBATCH -o log
echo "in ${PWD##*/data/}"
echo result > result
