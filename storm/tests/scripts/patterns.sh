#!/bin/bash
## run: sbatch --wait --array=5 patterns.sh
#SBATCH -J pat
#SBATCH -o %x_%u_%3a_%%.out
#SBATCH -e %x-%A_%a.err
echo out
echo err >&2
