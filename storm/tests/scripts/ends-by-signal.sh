#!/bin/bash
## run: bash ends-by-signal.sh
# What `sbatch --wait` tells of jobs that did not end by themselves.
sbatch -Q --wait -o /dev/null --wrap 'kill -TERM $$'
echo "a signal: $?"
sbatch -Q --wait -H -J never -o /dev/null --wrap true &
waits=$!
until scancel -v --me -n never 2>&1 | grep -q Terminating; do sleep 0.1; done
wait "$waits"
echo "cancelled before its begin: $?"
sbatch -Q --wait -a 1-3 -o /dev/null --wrap 'exit $SLURM_ARRAY_TASK_ID'
echo "the worst of an array: $?"
