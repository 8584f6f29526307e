#!/bin/bash
## run: bash heredoc.sh
# A loop writes a script for each value and hands it to sbatch.
for temperature in 280 300; do
    sbatch <<EOF
#!/bin/bash
#SBATCH --job-name=T$temperature
#SBATCH --output=T$temperature.out
#SBATCH --ntasks=2
echo "temperature $temperature with \$SLURM_NTASKS tasks in \$SLURM_JOB_NAME"
EOF
done
