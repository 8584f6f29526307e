#!/bin/bash
## run: bash refused.sh
# What a user mistypes is told at once, and no job is made of it.
sbatch --frogs --wrap true; echo "status $?"
sbatch --time=soon --wrap true; echo "status $?"
sbatch --mem=1G --wrap true refused.sh; echo "status $?"
sbatch --mem=1G --mem-per-cpu=1G --wrap true; echo "status $?"
sbatch -p nowhere --wrap true 2>/dev/null; echo "status $?"
sbatch no-such-file.sh 2>/dev/null; echo "status $?"
