#!/bin/bash
## run: printf 'apple 3\nbanana 4\ncherry 5\n' > fruit.txt && sbatch --wait array-lines.sh
#SBATCH -J lines
#SBATCH -a 1-3
#SBATCH -o line_%a.out

# Each task takes its line of a file.
line=$(sed -n "${SLURM_ARRAY_TASK_ID}p" fruit.txt)
read -r name count <<<"$line"
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: $name times $count"
echo "from $SLURM_ARRAY_TASK_MIN to $SLURM_ARRAY_TASK_MAX"
