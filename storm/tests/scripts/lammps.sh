#!/bin/bash
#SBATCH -J melt -n 4 -N 2 -o log.melt
# mpirun of the MPI library finds the nodes of the job.
cat > in.melt <<'INPUT'
units lj
run 100
INPUT
mpirun.mpich sh -c 'echo "process $PMI_RANK of $PMI_SIZE runs $(tail -n 1 in.melt)"' | sort
rm in.melt
