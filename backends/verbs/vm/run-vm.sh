#!/usr/bin/env bash
# Runs a Linux x86-64 program in a small machine that has a soft-RoCE (rdma_rxe) device:
# Debian's own kernel under qemu, emulated, so that it works where there is no KVM.
#
#   run-vm.sh PROG [ARG...]   what PROG says comes out here, its exit status is ours
#   run-vm.sh --prepare       only fetches the kernel and makes the base image
#
# In the machine PROG is root, in /t, where the files of EXTRA are beside it; ./init makes
# the device, rxe0, with the addresses 10.9.0.1 to 10.9.0.8.
#
# Environment: STORM_VM_DIR  where kernel and image are kept (target/rdma-vm)
#              MEM 1024 MiB, SMP 2 processors, LIMIT 300 seconds, EXTRA files beside PROG
#              SETTINGS lines of shell before PROG, and CABLE the sockets of this end and of
#              the other one, and an Ethernet address: for two machines (run-pair.sh)
# Exit status: that of PROG; 124 when LIMIT has passed; 125 when the machine did not work.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="${STORM_VM_DIR:-$here/../../../target/rdma-vm}"
libs=/usr/lib/x86_64-linux-gnu
# Loaded in this order.
modules="crc32_generic configfs ib_core ib_uverbs iw_cm ib_cm rdma_cm rdma_ucm udp_tunnel ip6_udp_tunnel rdma_rxe dummy e1000 sch_netem"

fail() {
    echo "run-vm: $*" >&2
    exit 125
}

install_tools() {
    local missing=() pair
    for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio \
        rdma:iproute2 xz:xz-utils ib_write_lat:perftest; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [ -e $libs/libibverbs/librxe-rdmav34.so ] || missing+=(libibverbs1 ibverbs-providers)
    [ -e $libs/librdmacm.so.1 ] || missing+=(librdmacm1)
    [ "${#missing[@]}" -gt 0 ] || return 0
    [ "$(id -u)" -eq 0 ] || fail "not installed, and not root to install: ${missing[*]}"
    apt-get update -qq || fail "apt-get update has failed: no package lists"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null || fail "apt-get cannot install ${missing[*]}"
}

have_kernel() {
    local module
    [ -e vmlinux ] || return 1
    for module in $modules; do [ -e "modules/$module.ko" ] || return 1; done
}

# The kernel is unpacked, never installed.
fetch_kernel() {
    local package image offset module file
    package="$(apt-cache depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')"
    [ -n "$package" ] || { apt-get update -qq || true; }
    package="$(apt-cache depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')"
    [ -n "$package" ] || fail "Debian's package lists have no linux-image-amd64"
    rm -rf deb kernel && mkdir deb kernel
    (cd deb && apt-get download -qq "$package" 2>/dev/null && dpkg -x ./*.deb ../kernel) ||
        fail "$package cannot be downloaded"
    # The ELF file in the compressed image: booted as such, nothing is unpacked under emulation.
    image="$(echo kernel/boot/vmlinuz-*)"
    for offset in $(LC_ALL=C grep -obUaP '\xfd7zXZ\x00' "$image" | cut -d: -f1); do
        tail -c +$((offset + 1)) "$image" | xz -dc 2>/dev/null >vmlinux.new || true
        [ "$(head -c 4 vmlinux.new | tail -c 3)" = ELF ] && break
    done
    [ "$(head -c 4 vmlinux.new | tail -c 3)" = ELF ] || fail "no kernel in $image"
    mkdir -p modules
    for module in $modules; do
        file="$(find kernel/lib/modules -name "$module.ko")"
        [ -n "$file" ] || fail "$package has no module $module"
        cp "$file" modules/
    done
    mv vmlinux.new vmlinux
    rm -rf kernel deb
}

copy_libraries() {
    local root="$1" library
    for library in libc.so.6 libm.so.6 libgcc_s.so.1 libpthread.so.0 libdl.so.2 librt.so.1 \
        libibverbs.so.1 librdmacm.so.1; do
        [ ! -e "$libs/$library" ] || cp -L "$libs/$library" "$root/lib/x86_64-linux-gnu/"
    done
    { ldd "$root"/sbin/* $libs/libibverbs.so.1 $libs/librdmacm.so.1 2>/dev/null || true; } |
        sed -nE 's/^.*(=> |\t)(\/[^ ]+) \(0x.*$/\2/p' | sort -u |
        while read -r library; do
            case "$library" in
            *ld-linux*) cp -L "$library" "$root/lib64/" ;;
            *) cp -L "$library" "$root/lib/x86_64-linux-gnu/" ;;
            esac
        done
}

make_image() {
    local root=root program
    rm -rf "$root"
    mkdir -p "$root"/{bin,sbin,proc,sys,dev,tmp,run,lib/x86_64-linux-gnu,lib64,lib/modules,usr/bin,var} \
        "$root/etc/libibverbs.d" "$root/$libs/libibverbs"
    ln -s ../run "$root/var/run"
    printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/etc/passwd"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for program in $(busybox --list | grep -vxE 'busybox|ip|tc'); do
        ln -sf busybox "$root/bin/$program"
    done
    for program in ip rdma tc ib_write_lat ib_write_bw; do
        cp -L "$(command -v $program)" "$root/sbin/"
    done
    cp $libs/libibverbs/librxe-rdmav34.so "$root$libs/libibverbs/"
    echo "driver rxe" >"$root/etc/libibverbs.d/rxe.driver"
    copy_libraries "$root"
    cp modules/*.ko "$root/lib/modules/"
    echo "$modules" >"$root/lib/modules/load"
    cp "$here/init" "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet >../"$1".new)
    mv "$1".new "$1"
    rm -rf "$root"
}

prepare() {
    install_tools
    mkdir -p "$dir"
    dir="$(cd "$dir" && pwd)"
    # Another script is another image.
    base="base-$(cat "$here/init" "$here/run-vm.sh" | sha256sum | cut -c1-16).cpio"
    (
        cd "$dir"
        exec 9>lock && flock 9
        have_kernel || fetch_kernel
        [ -e "$base" ] || { rm -f base-*.cpio && make_image "$base"; }
    )
}

prepare
[ "${1:---prepare}" != --prepare ] || exit 0
program="$1"
shift
work="$(mktemp -d)"
machine=
trap '[ -z "$machine" ] || kill "$machine" 2>/dev/null; rm -rf "$work"' EXIT
mkdir -p "$work/overlay/t"
cp -L "$program" "$work/overlay/t/prog"
for file in ${EXTRA:-}; do cp -L "$file" "$work/overlay/t/"; done
{ [ $# -eq 0 ] || printf '%q ' "$@"; echo; } >"$work/overlay/t/args"
printf '%s\n' "${SETTINGS:-}" >"$work/overlay/t/settings"
network=(-net none)
if [ -n "${CABLE:-}" ]; then
    read -r near far address <<<"$CABLE"
    network=(-device "e1000,netdev=cable,mac=$address"
        -netdev "dgram,id=cable,local.type=unix,local.path=$near,remote.type=unix,remote.path=$far")
fi
(cd "$work/overlay" && find . | cpio -o -H newc --quiet) | cat "$dir/$base" - >"$work/initrd"
: >"$work/out" >"$work/status"
limit="${LIMIT:-300}"
# Vector instructions and `rep movsb` are slower under emulation than what libraries do without;
# and what is at the same address in every process (norandmaps) is translated once for all.
# The kernel looks whether its timer ticks and gives up at once if not (no_timer_check): under load it does so late.
timeout -k 5 "$limit" qemu-system-x86_64 -accel tcg,thread=multi \
    -cpu max,-avx,-avx2,-erms,-fsrm -machine q35,usb=off \
    -m "${MEM:-1024}" -smp "${SMP:-2}" -nodefaults -no-user-config -display none -monitor none \
    "${network[@]}" -no-reboot -kernel "$dir/vmlinux" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on tsc=reliable no_timer_check norandmaps" \
    -serial file:"$work/console" -serial file:"$work/out" -serial file:"$work/status" &
machine=$!
tail -f -n +1 -s 0.05 --pid=$machine "$work/out" &
teller=$!
set +e
wait $machine
ended=$?
machine=
wait $teller 2>/dev/null
status="$(tr -dc 0-9 <"$work/status")"
[ -z "$status" ] || exit "$status"
[ "$ended" -ne 124 ] || { echo "run-vm: not done within $limit s" >&2; exit 124; }
echo "run-vm: no exit status from the machine (qemu: $ended); its console says:" >&2
tail -n 40 "$work/console" >&2
exit 125
