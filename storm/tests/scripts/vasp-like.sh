#!/bin/bash
#SBATCH --job-name=relax
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --output=vasp.out
# A calculation in stages; each needs what the one before has left.
for stage in 1 2 3; do
    echo "ISTART = $((stage > 1))" > INCAR
    if ! srun sh -c '[ "$SLURM_PROCID" != 0 ] || { cat INCAR; echo "wave" >> WAVECAR; }'; then
        echo "stage $stage failed"; exit 1
    fi
    [ "$(wc -l < WAVECAR)" = "$stage" ] || exit 2
done
rm INCAR WAVECAR
echo "converged after step $stage"
