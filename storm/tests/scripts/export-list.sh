#!/bin/sh
## run: MINE=1 YOURS=2 sbatch --wait --export=ALL,MINE=3,OTHER='a b' export-list.sh
#SBATCH -o out
echo "$MINE $YOURS $OTHER"
