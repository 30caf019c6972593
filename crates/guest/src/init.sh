#!/bin/busybox sh
# shellcheck shell=dash
# The guest's init: a shell on the console that does what it is told, line by line, and says how
# each went. What it says to the host stands between <<< and >>>.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /sbin
/bin/busybox --install -s /sbin
export PATH=/bin:/sbin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
dmesg -n 1
tty=/dev/$(sed 's/.*console=\([a-zA-Z0-9]*\).*/\1/' /proc/cmdline)
# busybox's `read` begins anew where SIGCHLD comes within a line, and what it had is lost. So the
# terminal gives whole lines (up to 4,095 bytes), and no character of them has a meaning.
stty -F "$tty" raw -echo icanon -iexten eof undef eol undef erase undef kill undef
# shellcheck disable=SC2094 # a terminal
exec <"$tty" >"$tty" 2>&1
# busybox's shell prefers its own; these are Debian's.
ip() { /bin/ip "$@"; }
ping() { /bin/ping "$@"; }

# The words of a workload. Each waits for the host's answer.
begin() { echo "<<<begin>>>"; read -r _; }
end() { echo "<<<end $*>>>"; read -r _; }
host() {
    echo "<<<host $*>>>"
    read -r status
    return "$status"
}
start() {
    echo "<<<start $*>>>"
    read -r status
    return "$status"
}
listen() {
    echo "<<<listen>>>"
    read -r _
}
ask() {
    echo "<<<ask $*>>>"
    read -r status
    return "$status"
}
# The frames that the driver has read. Those that it does not pass up, since it runs an XDP program
# itself, it counts apart.
passed() {
    read -r passed <"/sys/class/net/$NIC/statistics/rx_packets"
    [ -z "${xdp:-}" ] || passed=$((passed + $(ethtool -S "$NIC" |
        awk '/ rx_xdp_(drop|tx_xmit):/ { n += $2 } END { print n + 0 }')))
}
# The host asks now and then how many these are.
frames() {
    echo "<<<frames $*>>>"
    while read -r status && [ "$status" = read ]; do
        passed
        echo "<<<passed $passed>>>"
    done
    return "$status"
}
xdp() {
    xdp=$1
    ip link set dev "$NIC" xdp obj "/xdp/$1.o" sec xdp
}

ip link set lo up
echo "<<<up $(cut -d' ' -f1 /proc/uptime)>>>"
# shellcheck disable=SC1091 # the host writes it, for a guest whom nobody answers
if [ -e /script ]; then
    . /script
    poweroff -f
fi
while read -r line; do
    eval "$line"
    echo "<<<done $?>>>"
done
poweroff -f
