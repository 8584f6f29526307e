#!/bin/bash
#SBATCH -n 2 -N 1 -o out
# A monitor runs beside the program and is ended after it.
srun --overlap -n 1 sh -c 'trap "exit 0" TERM; touch watching; while :; do sleep 0.1; done' 2>/dev/null &
monitor=$!
until [ -e watching ]; do sleep 0.1; done
srun --overlap -n 2 sh -c 'echo computing' 
kill "$monitor"
wait "$monitor" 2>/dev/null
rm watching
echo ended
