# shellcheck shell=dash disable=SC2154 # NIC and passed are init's
# The words of a workload in virtual time. Nobody reads the console while the guest runs. A word
# goes to ports of the machine (0xe00, 64 of them), and is answered with its newline.
word() {
    echo "<<<$*>>>"
    printf '%s\n' "$*" | dd of=/dev/port bs=64 seek=56 conv=notrunc 2>/dev/null
}
begin() { word begin; }
end() { word end "$@"; }
# The peer sends. The driver's counters are looked at when all should have come, because drivers ask
# their device for them.
frames() {
    passed
    first=$passed
    word frames "$@"
    bursts=$((($1 + $3 - 1) / $3))
    usleep $((bursts * $4 + 2000))
    for _ in $(seq 1000); do
        passed
        [ $((passed - first)) -ge "$1" ] && return
        usleep 1000
    done
    echo "the driver has read $((passed - first)) of $1 frames"
    return 1
}
# Runs a line, and says how it went.
work() {
    eval "$1"
    status=$?
    [ "$status" = 0 ] || dmesg | tail -n 3
    echo "<<<done $status>>>"
    return "$status"
}
# Runs a line. One that fails ends the guest.
step() {
    work "$1" || poweroff -f
}
