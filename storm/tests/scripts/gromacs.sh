#!/bin/bash
#SBATCH --job-name=md
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --output=md.log
# Molecular dynamics: hybrid processes and threads by srun.
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
cat > gmx_mpi <<'PROGRAM'
#!/bin/sh
[ "$SLURM_PROCID" != 0 ] || echo "$1 of $SLURM_NTASKS processes with $OMP_NUM_THREADS threads"
echo "part of process $SLURM_PROCID" > part.$SLURM_PROCID
PROGRAM
chmod +x gmx_mpi
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" ./gmx_mpi mdrun -deffnm md -ntomp "$OMP_NUM_THREADS"
cat part.? && rm part.? gmx_mpi
