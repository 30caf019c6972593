# shellcheck shell=dash disable=SC2154 # NIC and passed are init's
# The words of a workload in virtual time. Nobody reads the console while the guest runs. A word
# goes to 64 ports of a PC from 0xe00 on, or to as many bytes of another machine's memory at 4 GiB,
# and is answered with its newline. The first place also says what has become of frames and
# requests: 0 done, 1 some are left, 2 no answer, 3 the word was not understood.
if [ "$(uname -m)" = x86_64 ]; then
    word() {
        echo "<<<$*>>>"
        printf '%s\n' "$*" | dd of=/dev/port bs=64 seek=56 conv=notrunc 2>/dev/null
    }
    state() { dd if=/dev/port bs=1 skip=3584 count=1 2>/dev/null; }
    # The first place is the state's.
    part() {
        part=$(dd if=/dev/port bs=64 skip=56 count=1 2>/dev/null)
        part=${part#?}
    }
else
    word() {
        echo "<<<$*>>>"
        place=$((1 << 32))
        for part in $(printf '%s\n' "$*" | hexdump -v -e '1/4 "0x%x "'); do
            devmem "$place" 32 "$part"
            place=$((place + 4))
        done
    }
    # 0x30 is the character 0.
    state() { echo $(($(devmem $((1 << 32)) 8) - 48)); }
    # The first byte of a number is its last two digits.
    part() {
        part=$(for place in 0 8 16 24 32 40 48 56; do devmem $(((1 << 32) + place)) 64; done |
            sed 's/0x\(....\)\(....\)\(....\)\(....\)/\4\3\2\1/; s/\(..\)\(..\)/\\x\2\\x\1/g' |
            tr -d '\n')
        part=$(printf %b "$part")
        part=${part#?}
    }
fi
# Reads the next line of the host, in parts of 63 characters, of which the last has a newline in it.
# The guest's time stands until it is there. An empty one is no line.
hear() {
    line=
    while :; do
        part
        line=$line$part
        [ "${#part}" = 63 ] || [ -z "$line" ] || return 0
    done
}
# Says a word of traffic. It begins 10 ms later.
traffic() {
    word "$@"
    [ "$(state)" = 3 ] || return 0
    echo "\`$*\` is not understood"
    return 1
}
# Waits so many microseconds, and longer while any are left.
until_done() {
    usleep "$1"
    while [ "$(state)" = 1 ]; do usleep 10000; done
}
begin() { word begin; }
end() { word end "$@"; }
# The peer asks. It pauses for 2 ms behind each answer.
ask() {
    traffic ask "$@" || return 1
    until_done $(($2 * 2200 + 10000))
    [ "$(state)" = 0 ] && return
    echo "a request of $1 was not answered"
    return 1
}
# The peer's server of iperf3 always listens.
listen() { :; }
# The peer sends in a pattern, whatever the driver does with it.
arrivals() {
    traffic arrivals "$@" || return 1
    until_done $(($2 * $4 / 1000 + 12000))
    usleep 5000
}
# The peer sends. The driver's counters are looked at when all should have come, because drivers ask
# their device for them.
frames() {
    passed
    first=$passed
    traffic frames "$@" || return 1
    bursts=$((($1 + $3 - 1) / $3))
    usleep $((bursts * $4 + 12000))
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
