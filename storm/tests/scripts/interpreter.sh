#!/usr/bin/env python3
#SBATCH --job-name=py
#SBATCH --output=out
#SBATCH --cpus-per-task=2
import os
import sys

print("cpus", os.environ["SLURM_CPUS_PER_TASK"], "of", os.environ["SLURM_CPUS_ON_NODE"])
print("usable", len(os.sched_getaffinity(0)) >= 1)
sys.exit(7)
