#!/bin/bash
#SBATCH -o out
echo before
kill -KILL $$
