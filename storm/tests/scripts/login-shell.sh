#!/bin/bash -l
#SBATCH --output=out
shopt -q login_shell && echo a login shell
ulimit -c 0 && echo limits can be lowered
umask
