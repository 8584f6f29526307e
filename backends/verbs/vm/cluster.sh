#!/bin/sh
# In the test machine: a Machine Manager and eight Node Managers on RDMA, each with an address
# of its own. Launches a job on all nodes, shares them between two jobs, and lets a node die;
# then, with --backend auto, one of each with the device and without.
# Needs the `storm` program beside it; with `kernels`, too, its ranks communicate by RDMA.
set -u
cd /t || exit 1
chmod +x storm
export STORM_BACKEND="${1:-verbs}" STORM_RDMA_MULTICAST=auto STORM_SOCKET=/tmp/mm.sock STORM_LOG=info
nodes=8 pes=2

fail() {
    echo "FAILED: $*"
    tail -n 15 /tmp/mm.log /tmp/n*.log
    exit 1
}

# Waits until the command says what is wanted; each try is a question, not a sleep.
until_says() {
    wanted="$1" tries=0
    shift
    until "$@" 2>/dev/null | grep -Eiq "$wanted"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "$* does not say $wanted: $("$@" 2>&1)"
    done
}

./storm nodes --fabric || fail "no list of devices"
./storm nodes --fabric --json | grep -q '"name":"rxe0"' || fail "no list of devices for programs"

./storm key new /tmp/cluster.key >/dev/null || fail "no key"
cat >/tmp/storm.toml <<TOML
listen = "10.9.0.1:7117"
socket = "/tmp/mm.sock"
state-dir = "/tmp/state"
[security]
key-file = "/tmp/cluster.key"
[timeouts]
# Every instruction is emulated.
node-dead = "4s"
node-hung = "20s"
# A killed Node Manager takes its jobs with it.
node-return = "0s"
[[nodes]]
names = "n[1-$nodes]"
pes = $pes
TOML
./storm mm --config /tmp/storm.toml 2>/tmp/mm.log &
until_says '7117|listening|nodes' cat /tmp/mm.log
node=1
while [ $node -le $nodes ]; do
    ./storm nm --mm 10.9.0.1:7117 --name n$node --pes $pes --key /tmp/cluster.key \
        --listen 10.9.0.$node:0 --config /tmp/storm.toml 2>/tmp/n$node.log &
    eval "pid_$node=$!"
    node=$((node + 1))
done
until_says '^8$' sh -c './storm nodes --long --quiet | grep -ciw idle'
grep -q 'verbs.*rxe0' /tmp/n3.log || [ "$STORM_BACKEND" = tcp ] || fail "n3 is not on verbs"

printf '#!/bin/sh\necho rank $STORM_RANK\n' >/tmp/hello
# They look now and then: sixteen that never sleep leave an emulated machine to nobody else.
printf '#!/bin/sh\nuntil [ -e /tmp/gate ]; do sleep 1; done\n' >/tmp/spin
printf '#!/bin/sh\nexec sleep 1000\n' >/tmp/endless
chmod +x /tmp/hello /tmp/spin /tmp/endless

echo "-- launch on $nodes nodes"
lines="$(./storm run -n $((nodes * pes)) /tmp/hello | sort -u | wc -l)"
[ "$lines" -eq $((nodes * pes)) ] || fail "$lines ranks were heard"
./storm show "$(./storm hist --quiet | head -n 1 | cut -d' ' -f1)" | grep -iE 'state|launch' || true

echo "-- a program of some datagrams, to all of them at once"
./storm run -n $((nodes * pes)) /bin/busybox true || fail "it does not run"
grep -q 'sent to all at once' /tmp/mm.log || [ "$STORM_BACKEND" = tcp ] || fail "not by multicast"

# Each of the kernels tells a check sum, the same however its bytes travel.
if [ -e ./kernels ] && [ "$STORM_BACKEND" = verbs ]; then
    echo "-- ranks of storm-mpi, by RDMA"
    chmod +x kernels
    cp kernels /tmp/
    for kernel in "ring 3 1000" "ring 2 60000" stencil "fft 64"; do
        for network in verbs tcp; do
            # shellcheck disable=SC2086
            STORM_MPI_NETWORK=$network ./storm run -n $nodes --ntasks-per-node 1 /tmp/kernels $kernel \
                >"/tmp/by-$network" || fail "kernels $kernel does not run on $network"
        done
        cmp /tmp/by-verbs /tmp/by-tcp || fail "kernels $kernel has two answers"
    done
    # A word that means nothing is not taken for another.
    if STORM_MPI_NETWORK=infiniband ./storm run -n 2 --ntasks-per-node 1 /tmp/kernels ring 2>/tmp/said; then
        fail "a word that means nothing was taken"
    fi
    grep -q STORM_MPI_NETWORK /tmp/said || fail "nobody says what is wrong: $(cat /tmp/said)"
fi

echo "-- two jobs share all nodes"
first="$(./storm submit --quiet -n $((nodes * pes)) /tmp/spin)" || fail "not submitted"
second="$(./storm submit --quiet -n $((nodes * pes)) /tmp/spin)" || fail "not submitted"
until_says '^2$' sh -c './storm queue --quiet | grep -ciw running'
./storm queue
touch /tmp/gate
until_says 'COMPLETED' ./storm show "$first"
until_says 'COMPLETED' ./storm show "$second"

echo "-- a node dies"
victim="$(./storm submit --quiet -n $((nodes * pes)) /tmp/endless)" || fail "not submitted"
until_says 'RUNNING' ./storm show "$victim"
kill -9 $pid_5
until_says 'NODE_FAIL' ./storm show "$victim"
./storm show "$victim" | grep -iE 'state|reason'
./storm show "$victim" | grep -q n5 || fail "n5 is not named"
# The others go on.
lines="$(./storm run -n $((nodes * pes - pes)) /tmp/hello | sort -u | wc -l)"
[ "$lines" -eq $((nodes * pes - pes)) ] || fail "$lines ranks were heard"

./storm down --socket /tmp/mm.sock || fail "not ended"
wait
echo "-- all of it works on $STORM_BACKEND"

# A manager and a node that find out themselves where they can be; both must log this.
find_out() {
    ./storm mm --config /tmp/storm.toml 2>/tmp/mm.log &
    ./storm nm --mm 10.9.0.1:7117 --name n1 --pes $pes --key /tmp/cluster.key \
        --listen 10.9.0.1:0 2>/tmp/n1.log &
    until_says '^1$' sh -c './storm nodes --long --quiet | grep -ciw idle'
    grep -q "$1" /tmp/mm.log || fail "the manager does not say $1"
    grep -q "$1" /tmp/n1.log || fail "n1 does not say $1"
    lines="$(./storm run -n $pes /tmp/hello | sort -u | wc -l)"
    [ "$lines" -eq $pes ] || fail "$lines ranks were heard"
    ./storm down --socket /tmp/mm.sock || fail "not ended"
    wait
}
export STORM_BACKEND=auto
echo "-- auto, with a device"
find_out 'verbs.*rxe0'
echo "-- auto, without"
rdma link delete rxe0
find_out 'on TCP, as there is no RDMA device'
