#!/bin/bash
## run: bash cancelled-hard.sh
# Cancelled while it runs, without a trap.
job=$(sbatch --parsable -o /dev/null --wrap 'touch begun; sleep 300')
until [ -e begun ]; do sleep 0.1; done
rm begun
scancel "$job"
