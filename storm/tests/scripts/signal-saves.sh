#!/bin/bash
#SBATCH --time=1 --signal=B:USR1@58 -o out
# Warned before its limit, the job saves its state and leaves.
save() { echo "state saved"; exit 0; }
trap save USR1
while :; do
    sleep 300 &
    wait $!
done
