#!/bin/bash
## run: bash chain.sh
# A chain of jobs: prepare, compute twice, collect.
prepare=$(sbatch --parsable -J prepare -o /dev/null --wrap 'echo 20 > input')
one=$(sbatch --parsable -d afterok:$prepare -J one -o /dev/null --wrap 'expr $(cat input) + 1 > one')
two=$(sbatch --parsable -d afterok:$prepare -J two -o /dev/null --wrap 'expr $(cat input) + 2 > two')
sbatch --wait --dependency=afterok:$one:$two -J collect -o sum --wrap 'cat one two | paste -sd+'
echo "the last ended with $?"
