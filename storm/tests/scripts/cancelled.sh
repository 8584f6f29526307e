#!/bin/bash
## run: bash cancelled.sh
# One is cancelled while it waits, one while it runs: its trap has time to save.
waits=$(sbatch --parsable -H -o /dev/null --wrap 'true')
runs=$(sbatch --parsable -J runs -o runs.out -e /dev/null <<'EOF'
#!/bin/bash
trap 'echo saved; exit 0' TERM
touch begun
while :; do sleep 0.1; done
EOF
)
scancel "$waits"
until [ -e begun ]; do sleep 0.1; done
rm begun
scancel --full --signal=TERM "$runs"
