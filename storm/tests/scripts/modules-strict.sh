#!/bin/bash
#SBATCH -o out -e /dev/null
set -euo pipefail
module load gcc/12
echo never
