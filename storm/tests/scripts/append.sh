#!/bin/sh
## run: echo before > log && sbatch -W append.sh && sbatch -W --open-mode=truncate -o other append.sh
#SBATCH --open-mode=append --output=log
echo "one more line"
