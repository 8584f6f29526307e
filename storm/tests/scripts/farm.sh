#!/bin/bash
#SBATCH --ntasks=1 --cpus-per-task=4 -o out
# A farm of small tasks on one node, without srun.
seq 12 | xargs -P "$SLURM_CPUS_PER_TASK" -I{} sh -c 'echo $(({} * {})) > square.{}'
cat square.* | sort -n | paste -sd' '
rm square.*
pids=()
for i in 1 2 3; do
    sh -c "exit $i" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || echo "one ended with $?"; done
