#!/bin/bash
## run: bash held.sh
job=$(sbatch --parsable --hold -J held -o out --wrap 'echo released')
squeue -h -j "$job" -o '%T %r'
scontrol update jobid="$job" name=renamed
squeue -h -j "$job" -o '%j'
scontrol release "$job"
