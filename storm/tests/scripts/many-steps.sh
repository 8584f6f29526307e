#!/bin/bash
#SBATCH -n 4 -N 1 -o /dev/null -e /dev/null
# More steps than fit at once: each waits for a free processor.
for i in $(seq 8); do
    srun -Q -n 1 -N 1 --exact sh -c "echo task $i > step-$i" &
done
wait
cat step-? > all && rm step-?
