#!/usr/bin/env bash
# Runs a program of tests with two of the machines of run-vm.sh on one cable that loses
# packets, on its way in either direction: the suite and the nodes of every other level of
# the tree are processes of the first, the rest of the second.
#
#   run-pair.sh PROG [ARG...]   what PROG says comes out here, its exit status is ours
#
# Environment: LOSS 1% of the packets; and that of run-vm.sh, whose SETTINGS are of both machines
# Exit status: as of run-vm.sh
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
starter=10.9.0.2:7000

"$here/run-vm.sh" --prepare
cable="$(mktemp -d)"
second=
trap '[ -z "$second" ] || { kill "$second" && wait "$second"; } 2>/dev/null || true; rm -rf "$cable"' EXIT

CABLE="$cable/2 $cable/1 52:54:00:00:00:02" SETTINGS="machine=2 loss=${LOSS:-1%}
export STORM_TEST_STARTER=$starter
${SETTINGS:-}" \
    "$here/run-vm.sh" "$1" --exact starter --nocapture >"$cable/said" 2>&1 &
second=$!
status=0
CABLE="$cable/1 $cable/2 52:54:00:00:00:01" SETTINGS="machine=1 loss=${LOSS:-1%} starter='${starter%:*} ${starter#*:}'
export STORM_TEST_OWN_MACHINE=10.9.0.1 STORM_TEST_OTHER_MACHINE=$starter
${SETTINGS:-}" \
    "$here/run-vm.sh" "$@" || status=$?
[ "$status" -eq 0 ] || { echo "run-pair: the second machine said:" && cat "$cable/said"; } >&2
exit "$status"
