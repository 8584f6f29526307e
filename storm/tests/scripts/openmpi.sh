#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 -J ompi -o out
mpirun.openmpi --version | head -n 1 | sed 's/ [0-9.]*$//'
mpirun.openmpi sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"' | sort
