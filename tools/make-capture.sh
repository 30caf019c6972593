#!/usr/bin/env bash
# Makes a capture of real traffic: two network namespaces, a cable between them,
# and Linux's own stack at both ends with every offload off, so that what is
# captured is what a wire would carry, checksums and segments complete.
#
#   make-capture.sh OUT.pcapng
#
# In it: ARP, neighbour discovery, ICMP and ICMPv6 (also fragmented), TCP both
# ways and UDP over IPv4 and IPv6 (iperf3), UDP datagrams larger than the MTU,
# and frames with one and two VLAN tags, made by hand since not every kernel has
# VLAN devices. Some 2,000 frames, 2 MB, 2 seconds. Needs root.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 OUT.pcapng" >&2
    exit 2
fi
out=$1
for tool in ip ethtool tcpdump editcap iperf3 ping python3 timeout; do
    command -v "$tool" >/dev/null || { echo "$0: $tool is not installed" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "$0: needs root, for the namespaces" >&2; exit 2; }

# Two runs at once do not meet: the names carry the process id, and the cable is
# made inside the namespaces.
a=doorbell-a-$$ b=doorbell-b-$$
mac_a=02:00:00:00:00:0a mac_b=02:00:00:00:00:0b
dir=$(mktemp -d)
started=()

cleanup() {
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rm -rf "$dir" "$out.partial.$$"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

in_a() { timeout 20 ip netns exec "$a" "$@"; }
in_b() { timeout 20 ip netns exec "$b" "$@"; }

# Waits up to 5 s for a command to succeed.
wait_for() {
    for _ in $(seq 50); do
        if "$@"; then return; fi
        sleep 0.1
    done
    echo "$0: gave up waiting for: $*" >&2
    cat "$dir"/*.log >&2
    exit 1
}

ip netns add "$a"
ip netns add "$b"
for ns in "$a" "$b"; do
    # No router solicitations from addresses nobody asked for.
    ip netns exec "$ns" sysctl -qw net.ipv6.conf.default.accept_ra=0
done
ip -n "$a" link add wire address $mac_a type veth peer name wire address $mac_b netns "$b"
for end in "$a 1" "$b 2"; do
    read -r ns n <<<"$end"
    ip netns exec "$ns" ethtool -K wire tso off gso off gro off tx off rx off >/dev/null
    ip -n "$ns" addr add "10.77.0.$n/24" dev wire
    ip -n "$ns" addr add "fd77::$n/64" dev wire nodad
    ip -n "$ns" link set lo up
done

# The capture is of end b, both directions, started before the link comes up.
ip -n "$b" link set wire up
# It is looked into before tcpdump may have made it.
: >"$dir/tcpdump.log"
ip netns exec "$b" tcpdump -i wire -Z root -s 0 -B 16384 --immediate-mode \
    --time-stamp-precision=nano -w "$dir/raw.pcap" 2>"$dir/tcpdump.log" &
tcpdump=$!
started+=("$tcpdump")
wait_for grep -q "listening on" "$dir/tcpdump.log"
ip -n "$a" link set wire up
wait_for in_a ping -q -c 1 -W 1 10.77.0.2 >/dev/null

in_a ping -q -i 0.05 -c 5 10.77.0.2 >/dev/null
in_a ping -q -i 0.05 -c 5 fd77::2 >/dev/null
in_a ping -q -i 0.05 -c 2 -s 4000 10.77.0.2 >/dev/null
in_a ping -q -i 0.05 -c 2 -s 4000 fd77::2 >/dev/null

ip netns exec "$b" iperf3 -s >"$dir/iperf3.log" 2>&1 &
started+=($!)
# Looks only: a connection would be a test to the server.
listening() { [ -n "$(in_b ss -Hltn sport = :5201)" ]; }
wait_for listening
for to in 10.77.0.2 fd77::2; do
    in_a iperf3 -c $to -n 200K >/dev/null
    in_a iperf3 -c $to -n 200K -R >/dev/null
    in_a iperf3 -c $to -u -b 10M -n 200K -l 1400 >/dev/null
    in_a iperf3 -c $to -u -b 10M -n 6K -l 64 >/dev/null
done

in_a python3 - $mac_a $mac_b <<'PYTHON'
import socket, struct, sys

# Larger than the MTU: fragments.
for family, to in (socket.AF_INET, "10.77.0.2"), (socket.AF_INET6, "fd77::2"):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        for size in 1473, 4000, 9000:
            s.sendto(bytes(i & 0xff for i in range(size)), (to, 9))

# Tagged, from an AF_PACKET socket; the stack does not touch these.
def total(data):
    data += b"\0" * (len(data) % 2)
    n = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while n > 0xffff:
        n = (n & 0xffff) + (n >> 16)
    return n

SOURCE4, TARGET4 = socket.inet_aton("10.77.0.1"), socket.inet_aton("10.77.0.2")
SOURCE6, TARGET6 = (socket.inet_pton(socket.AF_INET6, x) for x in ("fd77::1", "fd77::2"))

def with_sum(segment, at, pseudo):
    c = ~total(pseudo + segment) & 0xffff
    if at == 6:
        c = c or 0xffff  # UDP: zero means none
    return segment[:at] + struct.pack("!H", c) + segment[at + 2:]

def udp(payload):
    return 17, 6, struct.pack("!HHHH", 40000, 9, 8 + len(payload), 0) + payload

def syn():
    options = struct.pack("!BBHBB", 2, 4, 1460, 4, 2) + b"\1\1"
    length = (20 + len(options)) << 2
    return 6, 16, struct.pack("!HHIIBBHHH", 40001, 5201, 7, 0, length, 2, 64240, 0, 0) + options

def ip4(protocol, at, segment):
    segment = with_sum(segment, at, SOURCE4 + TARGET4 + struct.pack("!HH", protocol, len(segment)))
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0x4000, 64, protocol, 0)
    head += SOURCE4 + TARGET4
    return 0x0800, head[:10] + struct.pack("!H", ~total(head) & 0xffff) + head[12:] + segment

def ip6(protocol, at, segment):
    segment = with_sum(segment, at, SOURCE6 + TARGET6 + struct.pack("!II", len(segment), protocol))
    head = struct.pack("!IHBB", 6 << 28, len(segment), protocol, 64) + SOURCE6 + TARGET6
    return 0x86dd, head + segment

def tagged(packet, *tags):
    ethertype, body = packet
    types = [t for t, _ in tags] + [ethertype]
    all_tags = [struct.pack("!HH", t, vlan) for t, (_, vlan) in zip(types, tags)]
    return b"".join([*all_tags, struct.pack("!H", ethertype), body])

mac = [bytes.fromhex(m.replace(":", "")) for m in sys.argv[1:]]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("wire", 0))
C, S = 0x8100, 0x88a8
for packet in (
    tagged(ip4(*syn()), (C, 5)),
    tagged(ip6(*syn()), (C, 5)),
    tagged(ip4(*udp(b"u" * 100)), (C, 3 << 13 | 7)),  # priority 3
    tagged(ip6(*udp(b"v" * 101)), (C, 7)),            # odd length
    tagged(ip4(*udp(b"w" * 1472)), (C, 4094)),        # full-sized: 1518 bytes
    tagged(ip4(*udp(b"q" * 200)), (S, 10), (C, 20)),  # QinQ
    tagged(ip6(*syn()), (S, 10), (C, 20)),
):
    wire.send(mac[1] + mac[0] + packet)
PYTHON

# The last frames are replies; give them time, then let tcpdump write its own.
in_a ping -q -c 1 10.77.0.2 >/dev/null
sleep 0.3
kill -INT "$tcpdump"
wait "$tcpdump"
started=("${started[@]:1}")
if ! grep -q "^0 packets dropped by kernel" "$dir/tcpdump.log"; then
    echo "$0: tcpdump lost packets:" >&2
    cat "$dir/tcpdump.log" >&2
    exit 1
fi

# tcpdump writes pcap only.
editcap -F pcapng "$dir/raw.pcap" "$out.partial.$$"
mv "$out.partial.$$" "$out"
