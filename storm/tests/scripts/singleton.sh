#!/bin/bash
## run: for i in 1 2 3; do sbatch -Q singleton.sh $i; done; sbatch -W singleton.sh 4
#SBATCH --job-name=only-one
#SBATCH --dependency=singleton
#SBATCH --output=order
#SBATCH --open-mode=append

# Jobs of one name run one after another.
mkdir running || exit 1
echo "run $1"
rmdir running
