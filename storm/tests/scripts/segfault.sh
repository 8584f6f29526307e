#!/bin/bash
#SBATCH -o out -e /dev/null
# A program dies of a signal; the shell makes its status of it.
sh -c 'kill -SEGV $$'
echo "status $?"
sh -c 'kill -ABRT $$'
