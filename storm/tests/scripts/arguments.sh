#!/bin/bash
## run: sbatch --wait arguments.sh --input 'a file' -n 5 '*'
#SBATCH -o out
echo "$# arguments"
printf '<%s>\n' "$@"
