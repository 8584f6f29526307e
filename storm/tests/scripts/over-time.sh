#!/bin/bash
#SBATCH -t 1 -o out
echo begins
exec sleep 600
