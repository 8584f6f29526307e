#!/bin/bash
## run: bash chain-breaks.sh
# The first job fails: what depends on its success never runs, what waits for its failure does.
first=$(sbatch --parsable -H -J first -o /dev/null --wrap 'exit 2')
sbatch --parsable --kill-on-invalid-dep=yes -d afterok:$first -o never --wrap 'echo no' >/dev/null
mend=$(sbatch --parsable -d afternotok:$first -J mend -o mended --wrap 'echo mended')
after=$(sbatch --parsable -d afterany:$first,afterok:$mend -J after -o after --wrap 'echo after')
scontrol release "$first"
sbatch --wait -d afterany:$after -J last -o last --wrap 'echo last'
