#!/bin/bash
#SBATCH --job-name=scratch
#SBATCH --output=log
# Work in a directory of the job's own on the node, and bring the results home.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/job-$SLURM_JOB_ID.XXXXXX")
cleanup() { cp "$scratch/result" "$SLURM_SUBMIT_DIR/" && rm -rf "$scratch" && echo cleaned; }
trap cleanup EXIT
cd "$scratch" || exit 1
seq 10 > data
awk '{ s += $1 } END { print s }' data > result
echo "worked in ${PWD%-*}" | sed "s/$SLURM_JOB_ID/ID/"
