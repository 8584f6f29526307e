#!/bin/sh
# In the test machine: the primitives on TCP, RDMA and the simulated QsNet beside perftest's one pair. Times of
# an emulated machine say nothing about hardware: only the ratios mean something. Needs the
# `primitives` program beside it; arguments are given to it.
set -u
cd /t || exit 1
chmod +x primitives

# One pair; $1 is the program, $2 the size. The server says where it is ready by listening.
pair() {
    "$1" -d rxe0 -x 1 -F -s "$2" -n 200 >/tmp/server 2>&1 &
    until netstat -lnt 2>/dev/null | grep -q ':18515 '; do :; done
    "$1" -d rxe0 -x 1 -F -s "$2" -n 200 127.0.0.1 >/tmp/client 2>&1 || cat /tmp/client
    wait $!
    grep -E "^ *$2 " /tmp/client
}

for size in 8 65536; do
    echo "-- ib_write_lat, $size bytes: bytes, rounds, least, greatest, typical, average ... us, one way"
    pair ib_write_lat $size
done
for size in 65536 1048576; do
    echo "-- ib_write_bw, $size bytes: bytes, rounds, peak, average MiB/s"
    pair ib_write_bw $size
done
echo "-- the least that a hop can cost (floor), and one lane between two processes, looking for completions for 200 us"
./primitives --backend verbs --hop --spin-us 200 --sizes 8,4096 --rounds 1000 || exit 1
echo "-- tcp, verbs asleep between completions, and the simulated QsNet in its virtual time"
./primitives --backend tcp,verbs,qsnet-sim "$@" || exit 1
echo "-- verbs with multicast"
./primitives --backend verbs --multicast "$@" || exit 1
echo "-- verbs, looking for completions for 200 us"
./primitives --backend verbs --spin-us 200 "$@" || exit 1
