#!/bin/bash
#SBATCH -o out
trap 'echo leaving with $?' EXIT
exit 42
