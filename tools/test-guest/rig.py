"""A served device with a guest on it, and the checks: those of the e1000 family, and what all have
in common."""

import concurrent.futures
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading
import time

from guest import PATIENCE, Failed, Guest, Server

GUEST, HOST = "10.0.0.1", "10.0.0.2"
MAC, TAP_MAC = "52:54:00:db:00:01", "52:54:00:db:00:02"
OTHER = "52:54:00:db:00:99"
BUDGETS = pathlib.Path(__file__).parents[2] / "budgets"
# What a kernel says of its clock when the emulated CPU was not run for a while.
STARVED = (
    "hrtimer: interrupt took",
    "clocksource: Long readout interval",
    "sched: DL replenish lagged",
)
LONG = os.environ.get("TIER", "short") == "long"


def host(line, **more):
    return subprocess.run(line.split(), check=True, capture_output=True, text=True, **more).stdout


def expect(holds, what):
    if not holds:
        raise Failed(what)


def timing(why):
    """Marks a check that can see how fast the machine is, and says why. No other is tried twice."""

    def mark(check):
        check.timing = why
        return check

    return mark


def until(holds, seconds=PATIENCE):
    """Waits until it holds. Returns whether it does."""
    end = time.monotonic() + seconds
    while not (done := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return done


def wire():
    """The TAP device and its addresses; it goes with the namespace."""
    host("ip link set lo up")
    host("ip tuntap add dev tap0 mode tap")
    for name in ("tap0", "default"):
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    host(f"ip link set tap0 address {TAP_MAC} mtu 9000 up")
    host(f"ip addr add {HOST}/24 dev tap0")


TAPS = []


def tap(name, address, more=""):
    """One more TAP device; it goes when the check has ended."""
    TAPS.append(name)
    host(f"ip tuntap add dev {name} mode tap {more}")
    host(f"ip link set {name} up")
    host(f"ip addr add {address} dev {name}")


def untap():
    while TAPS:
        subprocess.run(["ip", "link", "del", TAPS.pop()], stderr=subprocess.DEVNULL)


def frame(to, vlan=None, size=100):
    """A raw frame on the host's end, of a type that nobody answers."""
    head = bytes.fromhex(to.replace(":", "") + TAP_MAC.replace(":", ""))
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    return head + tag + b"\x88\xb5" + bytes(size - len(head) - len(tag) - 2)


def send(server, frames):
    """Sends frames from the host's end, and waits until the server has given each to the device."""
    before = server.counts()["arrived_frames"]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind(("tap0", 0))
        for f in frames:
            s.send(f)
    arrived = lambda: server.counts()["arrived_frames"] - before
    expect(
        until(lambda: arrived() >= len(frames)),
        f"{len(frames)} frames sent by the host, {arrived()} arrived",
    )


def tagged_socket():
    """Opens a socket that sees the tags of the host's end. (The host's kernel may lack VLANs.)"""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(
        263, 8, 1
    )  # SOL_PACKET, PACKET_AUXDATA: the kernel takes the tag out and says so beside
    s.bind(("tap0", 3))
    s.settimeout(0.5)
    return s


def answer_tagged(s, vlan, ended):
    """Answers pings that come with this VLAN tag until no more come after the end. Returns how
    many."""
    ours = 0
    while True:
        try:
            data, extra, _, _ = s.recvmsg(65536, 64)
        except TimeoutError:
            if ended.is_set():
                return ours
            continue
        status, _, _, _, _, tci, _ = struct.unpack("=IIIHHHH", extra[0][2][:20])
        if (
            not status & 16
            or tci & 0xFFF != vlan
            or data[12:14] != b"\x08\0"
            or data[23] != 1
            or data[34] != 8
        ):
            continue
        ours += 1
        icmp = bytearray(data[34:])
        # Type 8 becomes 0, and the checksum follows.
        icmp[0], was = 0, int.from_bytes(icmp[2:4], "big") + 0x0800
        icmp[2:4] = ((was & 0xFFFF) + (was >> 16)).to_bytes(2, "big")
        ip = data[14:26] + data[30:34] + data[26:30] + bytes(icmp)
        s.send(data[6:12] + data[:6] + b"\x81\0" + tci.to_bytes(2, "big") + b"\x08\0" + ip)


def copy_blocks(capture, part, since):
    """Copies a capture, which may still be written: its head, and the frames from `since` on."""
    at, left = 0, 20 << 20
    while head := capture.read(8):
        kind, length = struct.unpack("<II", head)
        if kind != 6 or at >= since:
            block = head + capture.read(length - 8)
            part.write(block)
            left -= len(block)
            if left < 0 or len(block) < length:
                break
        at += length
        capture.seek(at)


def tcp_checksums(capture, source, directory, since=0):
    """Returns how many TCP segments from `source` a capture has; all their checksums are right.

    Of a capture that is still written, it is what is there from byte `since` on, up to 20 MB.
    Linux's skb_checksum_help writes 0xffff where the sum gives 0, one segment in 65,536: a
    receiver accepts it (RFC 1071), and tshark names it apart from wrong ones.
    """
    # tshark says that the part is cut short, and has read what is there.
    part = directory / "part.pcapng"
    with open(capture, "rb") as f, open(part, "wb") as of:
        copy_blocks(f, of, since)
    line = ["tshark", "-r", part, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    line += [
        "-Y",
        f"ip.src == {source} && tcp.len > 0",
        "-T",
        "fields",
        "-e",
        "tcp.checksum.status",
        "-e",
        "ip.checksum.status",
        "-e",
        "tcp.checksum.ffff",
    ]
    status = subprocess.run(line, capture_output=True, text=True).stdout.splitlines()
    part.unlink()
    right = status.count("1\t1\t") + status.count("0\t1\t1")
    expect(
        len(status) > 100 and right == len(status),
        f"{len(status)} segments from {source}, of which {right} right",
    )
    return right


def packets(path):
    """Packets in a pcapng file."""
    at, n = 0, 0
    with open(path, "rb") as f:
        while head := f.read(8):
            kind, length = struct.unpack("<II", head)
            n += kind == 6
            at += length
            f.seek(at)
    return n


def numbers(guest):
    """`ethtool -S`."""
    out = guest.run("ethtool -S eth0")
    return {
        k.strip(): int(v)
        for k, v in (l.split(":") for l in out.splitlines() if ":" in l and l.split(":")[1].strip())
    }


class Rig:
    """A served device with a guest on it, and the checks, in the order of `all`."""

    MODULE = "e1000"
    # PCI Express, behind a root port.
    EXPRESS = False
    SERVER = Server
    # What the server is told besides.
    SERVE = ("--mac", MAC)
    # Kernel warnings that a probe cannot avoid, by text.
    KNOWN = ()

    def __init__(self, binary, cache, work, initrd, device, cpus):
        self.directory = work / f"{device}-{cpus}"
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "socket").unlink(missing_ok=True)
        # A gigabyte; kept only where a check fails. In a long run it would be ten.
        for left in [*self.directory.glob(".capture-*"), *self.directory.glob("wire.pcapng")]:
            left.unlink()
        more = [] if LONG else ["--capture", self.directory / "wire.pcapng"]
        self.binary, self.device = binary, device
        self.server = self.SERVER(binary, device, "tap:tap0", self.directory, *self.SERVE, *more)
        self.guest = None
        self.boot = lambda: self.machine(cache, initrd, cpus)
        try:
            self.guest = self.boot()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def parts(cache, initrd):
        """Where its guest's QEMU and kernel are, and its initramfs."""
        return cache, initrd

    def machine(self, cache, initrd, cpus):
        return Guest(cache, initrd, self.server.socket, self.directory, cpus, self.EXPRESS)

    def close(self):
        for it in (self.guest, self.server):
            if it:
                it.kill()

    # ---- helpers ----

    def up(self, mtu=1500):
        run = self.guest.run
        other = int(run("cat /sys/class/net/eth0/mtu")) != mtu
        (self.while_up if other else run)(
            f"ip link set eth0 mtu {mtu} up && ip addr replace {GUEST}/24 dev eth0"
        )
        self.carrier("1")
        run(f"ip neigh replace {HOST} lladdr {TAP_MAC} dev eth0")
        host(f"ip neigh replace {GUEST} lladdr {MAC} dev tap0")

    def while_up(self, line, check=True):
        """Runs a line for which the driver resets the card although the interface is up."""
        # Linux's e1000 has a race here. Its watchdog runs every two seconds. When it does so after
        # e1000_down() has set the carrier off and before that cancels it, it sees a link without
        # carrier, sets TCTL.EN and the carrier on. The reset then clears TCTL.EN, and nobody sets
        # it again, since the carrier is on: no frame leaves until the interface goes down. On a
        # busy machine, where a register access takes tens of milliseconds, one run of five met it.
        # The watchdog's last act is an interrupt; the line follows it, and the next watchdog is two
        # seconds away.
        wait = ""
        if self.MODULE == "e1000":
            wait = "s=$(grep eth0 /proc/interrupts); for i in $(seq 500); do usleep 20000; "
            wait += '[ "$(grep eth0 /proc/interrupts)" = "$s" ] || break; done; [ $i -lt 500 ] && '
        self.guest.run(f"{wait}{{ {line}; }}", check=check)

    def carrier(self, wanted):
        self.guest.run(
            f"for i in $(seq {10 * PATIENCE}); do [ $(cat /sys/class/net/eth0/carrier) = {wanted} "
            f"] && break; sleep 0.1; "
            f"done; [ $(cat /sys/class/net/eth0/carrier) = {wanted} ]",
            2 * PATIENCE,
        )

    def warnings(self, guest=None):
        """Kernel messages of warning level and worse, and the driver's own complaints, since the
        last look."""
        said = (guest or self.guest).run("dmesg -r -c")
        lines = [l for l in said.splitlines() if l.startswith("<")]
        serious = [l for l in lines if int(l[1 : l.index(">")]) & 7 <= 4]
        words = (
            "Hang",
            "hang",
            "Reset adapter",
            "timeout",
            "TIMEOUT",
            "BUG",
            "WARNING",
            "Call Trace",
        )
        found = serious + [l for l in lines if any(w in l for w in words) and l not in serious]
        return [l for l in found if not any(k in l for k in (*self.KNOWN, *STARVED))]

    def quiet(self, *expected, guest=None):
        """Fails on kernel warnings since the last look, but for those `expected`, by their text."""
        found = [l for l in self.warnings(guest) if not any(e in l for e in expected)]
        expect(not found, "the kernel warns: " + "; ".join(found))

    def iperf(self, seconds, *more):
        """Guest to host, or with -R the other way: Mbit/s at the receiver."""
        server = subprocess.Popen(["iperf3", "-s", "-1", "-B", HOST], stdout=subprocess.DEVNULL)
        try:
            time.sleep(0.3)
            out = self.guest.run(f"iperf3 -c {HOST} -t {seconds} -f m {' '.join(more)}")
        finally:
            server.kill()
            server.wait()
        line = [l for l in out.splitlines() if "receiver" in l][-1].split()
        return float(line[line.index("Mbits/sec") - 1])

    def segments(self):
        """TCP segments sent and sent again so far, out of the guest and into it."""

        def of(text):
            names, values = (l.split() for l in text.splitlines() if l.startswith("Tcp:"))
            return [int(values[names.index(n)]) for n in ("OutSegs", "RetransSegs")]

        snmp = "/proc/net/snmp"
        return of(self.guest.run(f"cat {snmp}")), of(pathlib.Path(snmp).read_text())

    def at_rest(self):
        """Returns the server's counts once no frame is on its way: the same on two looks."""
        seen = [{}]
        frames = lambda counts: [
            v
            for k, v in counts.items()
            if k.endswith(("_frames", "_packets", "tx_taken", "tx_sent"))
        ]

        def unchanged():
            time.sleep(0.3)
            seen.append(self.server.counts())
            return frames(seen[-1]) == frames(seen[-2])

        expect(until(unchanged), "frames go on without end")
        return seen[-1]

    def statistics(self):
        """The driver's counters, after its watchdog has read the device's (every two seconds)."""
        self.guest.run("sleep 2.5")
        return numbers(self.guest)

    # ---- checks ----

    def probe(self):
        """The driver binds and the kernel has nothing to complain about."""
        self.guest.run("dmesg -c >/dev/null")
        self.guest.run(f"insmod /m/{self.MODULE}.ko && [ -e /sys/class/net/eth0 ]")
        expect(MAC in self.guest.run("cat /sys/class/net/eth0/address"), "the station address")
        self.up()
        self.quiet()

    def ping(self):
        """ICMP both ways, of all sizes."""
        for size in (0, 18, 56, 1000, 1472):
            self.guest.run(f"ping -q -c 5 -i 0.05 -W 2 -s {size} {HOST}")
            host(f"ping -q -c 5 -i 0.05 -W 2 -s {size} {GUEST}")

    @timing(
        "TCP sends again what nobody answers for 200 ms, and a guest that has no CPU does not "
        "answer"
    )
    def iperf_both_ways(self):
        """TCP out of the guest and into it."""
        seconds = 30 if LONG else 4
        before, segments = self.server.counts(), self.segments()
        out, into = self.iperf(seconds), self.iperf(seconds, "-R")
        after = self.server.counts()
        sent = after["wire_frames"] - before["wire_frames"]
        print(f"      {out:.0f} Mbit/s out, {into:.0f} in", end="")
        print(
            f"; {(after['mmio_writes'] - before['mmio_writes']) / sent:.2f} register writes a "
            f"frame sent"
        )
        # Rates are the machine's. A driver that waits for a lost interrupt sends again, of little
        # that it sends.
        for way, was, now in zip(("out", "in"), segments, self.segments()):
            all, again = (b - a for a, b in zip(was, now))
            expect(
                all > 100 and again < 20 + all / 20,
                f"{again} of {all} segments {way} were sent again",
            )
        self.quiet()

    def statistics_equal_counters(self):
        """`ethtool -S` is what the device counted, and what the ledger saw on the wire."""

        def both():
            self.at_rest()
            s = self.statistics()
            return s, self.server.counts()

        s0, c0 = both()
        self.guest.run(f"ping -q -c 20 -i 0.02 -s 700 {HOST}")
        self.iperf(2)
        self.iperf(2, "-R", "-u", "-b", "300M", "-l", "200")
        send(self.server, [frame(OTHER) for _ in range(7)])
        s1, c1 = both()
        d = lambda of, a, b: b[of] - a[of]
        pairs = [
            (("rx_packets",), "device_rx_packets"),
            (("tx_packets",), "device_tx_packets"),
            (("tx_packets", "tx_flow_control_xon", "tx_flow_control_xoff"), "wire_frames"),
            (("tx_flow_control_xon", "tx_flow_control_xoff"), "device_pauses_sent"),
            (("rx_missed_errors",), "device_rx_missed"),
            (("rx_no_buffer_count",), "device_rx_waited"),
            (("tx_tcp_seg_good",), "device_large_sends"),
        ]
        for stats, counter in pairs:
            a = sum(d(n, s0, s1) for n in stats)
            b = d(counter, c0, c1)
            expect(a == b, f"ethtool's {'+'.join(stats)} is {a}, {counter} is {b}")
        expect(
            d("tx_packets", s0, s1) > 20 and d("tx_tcp_seg_good", s0, s1) > 0, "there was traffic"
        )
        fcs, pauses = 4 * d("tx_packets", s0, s1), 60 * d("device_pauses_sent", c0, c1)
        # GOTC is read in two halves, the second of which clears both: what leaves between them is
        # in neither. The driver's watchdog reads it under traffic, so that this happens now and
        # then; it is at most a large send each time.
        missing = d("wire_bytes", c0, c1) - pauses + fcs - d("tx_bytes", s0, s1)
        expect(0 <= missing <= 1 << 17, f"tx_bytes are the wire's, with FCS; {missing} are missing")
        lost = sum(d(f"device_{n}", c0, c1) for n in ("rx_filtered", "rx_missed", "rx_dropped"))
        expect(
            d("arrived_frames", c0, c1) - lost == d("rx_packets", s0, s1),
            "every frame arrived, or was dropped by name",
        )
        expect(d("device_rx_filtered", c0, c1) >= 7, "frames for others are filtered")

    def self_test(self):
        """`ethtool -t offline` passes, all parts."""
        out = self.guest.run("ethtool -t eth0 offline")
        expect("result is PASS" in out, out)
        self.carrier("1")
        self.quiet()

    def ring_sizes(self):
        """`ethtool -G` while up: the rings are built anew, and traffic goes on."""
        for rx, tx in ((80, 80), (4096, 4096), (256, 256)):
            self.while_up(f"ethtool -G eth0 rx {rx} tx {tx}")
            self.carrier("1")
            self.ping_once()

    def ping_once(self):
        self.guest.run(f"for i in $(seq 60); do ping -q -c 1 -W 1 {HOST} && break; done")

    def speeds(self):
        """Forced and advertised speeds: what ethtool shows is what was asked for, and frames
        pass."""
        for ask, speed, duplex in (
            ("speed 100 duplex full autoneg off", "100Mb/s", "Full"),
            ("speed 10 duplex half autoneg off", "10Mb/s", "Half"),
            ("autoneg on advertise 0x004", "100Mb/s", "Half"),
            ("autoneg on advertise 0x02f", "1000Mb/s", "Full"),
        ):
            self.while_up(f"ethtool -s eth0 {ask}; sleep 0.5")
            self.carrier("1")
            shown = self.guest.run("ethtool eth0")
            expect(f"Speed: {speed}" in shown and f"Duplex: {duplex}" in shown, f"{ask}: {shown}")
            self.ping_once()
        self.quiet()

    @timing("without pauses a flood is lost where the guest's CPU is slower than the host's")
    def flow_control(self):
        """A flood that the guest cannot keep up with: without pause frames it loses many, and with
        them none."""

        # But for one thing: a pause lasts 33.5 ms and the 8254x does not repeat it, so while the
        # guest's CPU is away for longer, frames are lost, with a card too. In a trace of a busy
        # machine all losses were in such absences, of 34 to 387 ms. The server counts them apart,
        # and there are to be no others.
        def flood():
            self.up()
            before = self.server.counts()
            self.iperf(3, "-R", "-u", "-b", "900M", "-l", "1400")
            after = self.server.counts()
            d = lambda name: after[name] - before[name]
            return (
                d("device_pauses_sent"),
                d("device_rx_missed"),
                d("arrived_frames"),
                d("missed_after_pause"),
            )

        self.while_up("ethtool -G eth0 rx 80")
        self.up()
        self.guest.run("ethtool -A eth0 autoneg off rx off tx off; sleep 1")
        none, missed, arrived, _ = flood()
        expect(
            none == 0 and missed > arrived / 50,
            f"without flow control: {none} pauses, {missed} of {arrived} missed",
        )
        without = missed / arrived
        self.guest.run("ethtool -A eth0 autoneg off rx on tx on; sleep 1")
        pauses, missed, arrived, late = flood()
        print(
            f"      without, {without:.1%} missed; with {pauses} pause frames {missed} of "
            f"{arrived}, {late} after a pause ran out"
        )
        expect(pauses > 0 and missed == late, "pause frames are obeyed")
        self.while_up("ethtool -A eth0 autoneg on", check=False)
        self.while_up("ethtool -G eth0 rx 256", check=False)
        self.up()
        self.quiet()

    def offloads_off_and_on(self):
        """Without TSO, checksums and scatter-gather, and with them again."""
        before = self.server.counts()
        self.while_up(
            "ethtool -K eth0 tso off gso off tx off rx off sg off || ethtool -K eth0 tx off sg off"
        )
        self.iperf(2)
        between = self.server.counts()
        expect(
            before["device_large_sends"] == between["device_large_sends"],
            "no large sends without TSO",
        )
        self.while_up(
            "ethtool -K eth0 sg on tx on rx on tso on gso on || ethtool -K eth0 tx on sg on",
            check=False,
        )
        self.iperf(2)
        self.quiet()

    def tagged_pings(self):
        """Pings of VLAN 5, tagged on the wire both ways, by anybody. Returns how many."""
        self.guest.run(f"ip neigh replace 10.0.5.2 lladdr {TAP_MAC} dev eth0.5")
        ended = threading.Event()
        with tagged_socket() as s, concurrent.futures.ThreadPoolExecutor() as pool:
            answered = pool.submit(answer_tagged, s, 5, ended)
            try:
                # Until five are answered: a slow machine may take its time.
                said = self.guest.run("ping -q -c 5 -i 0.2 -w 300 -s 1400 10.0.5.2")
            finally:
                ended.set()
            sent = int(said.split(" packets transmitted")[0].split()[-1])
            expect(
                answered.result() == sent >= 5, f"{answered.result()} tagged pings came of {sent}"
            )
        return sent

    def tags_by_device(self):
        """Tags that the device inserted and took out, as far as it can be seen: none where it
        cannot."""
        return None

    def vlan(self):
        """A VLAN of the kernel's: tags inserted, stripped and filtered by the device; or, when that
        is off, by the kernel."""
        run = self.guest.run
        run("for m in llc stp mrp garp 8021q; do [ -d /sys/module/$m ] || insmod /m/$m.ko; done")
        run(
            "ip link add link eth0 name eth0.5 type vlan id 5 && ip addr add 10.0.5.1/24 dev "
            "eth0.5 && ip link set eth0.5 up"
        )
        for rx, tx in (("off", "on"), ("off", "off"), ("on", "off"), ("on", "on")):
            # The 8254x has one switch for both, and the driver keeps them alike.
            run(f"ethtool -K eth0 rxvlan {rx} txvlan {tx}; true")
            self.carrier("1")
            shown = run("ethtool -k eth0")
            rx, tx = (f"{way}-vlan-offload: on" in shown for way in ("rx", "tx"))
            before = self.tags_by_device()
            pings = self.tagged_pings()
            if before is not None:
                done = tuple(b - a for a, b in zip(before, self.tags_by_device()))
                expect(
                    done == (pings * tx, pings * rx),
                    f"tags inserted and taken out: {done}, with rxvlan {rx} and txvlan {tx}",
                )
        expect(rx and tx, "both are on again")
        before = self.server.counts()
        send(self.server, [frame(MAC, vlan=5) for _ in range(5)])
        between = self.server.counts()
        send(self.server, [frame(MAC, vlan=6) for _ in range(5)])
        after = self.server.counts()
        taken = lambda a, b: b["device_rx_packets"] - a["device_rx_packets"]
        expect(
            (taken(before, between), taken(between, after)) == (5, 0),
            "VLAN 5 arrives, VLAN 6 is filtered",
        )
        run("ip link del eth0.5")
        self.quiet()

    def jumbo(self):
        """MTU 9000."""
        self.up(mtu=9000)
        self.guest.run(f"ping -q -c 5 -i 0.05 -W 2 -M do -s 8972 {HOST}")
        host(f"ping -q -c 5 -i 0.05 -W 2 -M do -s 8972 {GUEST}")
        self.iperf(2)
        self.iperf(2, "-R")
        self.up(mtu=1500)
        self.quiet()

    def promiscuous(self):
        """Frames for others arrive in promiscuous mode alone; multicast by the table."""

        def taken(to):
            # A driver may set the filters a little later, by the guest's clock.
            self.guest.run("sleep 0.5")
            before = self.server.counts()
            send(self.server, [frame(to) for _ in range(10)])
            return self.server.counts()["device_rx_packets"] - before["device_rx_packets"]

        run = self.guest.run
        expect(taken(OTHER) == 0, "not for us")
        run("ip link set eth0 promisc on")
        expect(taken(OTHER) == 10, "promiscuous")
        run("ip link set eth0 promisc off")
        expect(taken(OTHER) == 0, "not any more")
        expect(taken("ff:ff:ff:ff:ff:ff") == 10, "broadcast")
        group = "01:00:5e:7f:01:02"
        expect(taken(group) == 0, "a group that nobody has joined")
        run(f"ip maddr add {group} dev eth0")
        expect(taken(group) == 10, "the group has been joined")
        run(f"ip maddr del {group} dev eth0")
        run("ip link set eth0 allmulticast on")
        expect(taken(group) == 10, "all groups")
        run("ip link set eth0 allmulticast off")

    def link_flaps(self):
        """The interface down and up, and the cable out and in."""
        for _ in range(30 if LONG else 5):
            self.guest.run("ip link set eth0 down; ip link set eth0 up")
            self.carrier("1")
        self.up()
        for _ in range(10 if LONG else 3):
            self.server.pull_or_put_cable()
            self.carrier("0")
            self.server.pull_or_put_cable()
            self.carrier("1")
        self.up()
        self.ping_once()
        self.quiet()

    def reload(self):
        """Unload and reload, ten times, the last under traffic; no DMA fault, whatever the driver
        left behind."""
        for n in range(50 if LONG else 10):
            if n % 10 == 9:
                self.guest.run(f"iperf3 -s -D -1 -B {GUEST}")
                flood = subprocess.Popen(
                    ["iperf3", "-c", GUEST, "-u", "-b", "50M", "-t", "3"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                time.sleep(1)
            self.guest.run(f"rmmod {self.MODULE} && [ ! -e /sys/class/net/eth0 ]")
            if n % 10 == 9:
                flood.kill()
                flood.wait()
            self.guest.run(
                f"killall -q iperf3; insmod /m/{self.MODULE}.ko && [ -e /sys/class/net/eth0 ]",
                check=True,
            )
            self.up()
            self.ping_once()
        self.quiet()

    def another_guest(self):
        """QEMU is killed under traffic; the next guest on the same server finds a fresh device."""
        flood = subprocess.Popen(
            ["ping", "-q", "-f", "-s", "1400", GUEST], stdout=subprocess.DEVNULL
        )
        try:
            time.sleep(1)
            self.guest.kill()
            expect(
                until(lambda: self.server.counts()["client_connected"] == 0), "the client has gone"
            )
        finally:
            flood.kill()
            flood.wait()
        self.guest = self.boot()
        self.probe()
        self.ping()

    def budget(self, counts):
        """`doorbell check` holds the device's budget against its report, and one of a frame for
        nothing does not hold."""
        report = self.directory / "report.json"
        report.write_text(json.dumps(counts))
        name = self.device.split("-")[0]
        text = (BUDGETS / f"{name}-guest.toml").read_text()
        # The other cards of the family cost about the same, on other buses.
        text = text.replace(f'device = "{name}"', f'device = "{self.device}"').replace(
            "\nbus = ", "\n# "
        )
        for what, code in ((text, 0), (text + '\n[budget.per_packet]\nmmio_writes = 0\n', 1)):
            path = self.directory / "budget.toml"
            path.write_text(re.sub(r'(?m)^"per_packet.mmio_writes".*$', "", what) if code else what)
            done = subprocess.run(
                [self.binary, "check", path, "--report", report], capture_output=True, text=True
            )
            expect(
                done.returncode == code,
                f"check ended with {done.returncode}: {done.stdout}{done.stderr}",
            )

    def bill(self):
        """At the end: nothing was lost without a name, and the capture holds the wire."""
        self.guest.stop()
        counts = self.server.stop()
        ledger, device = counts["ledger"], counts["device_counters"]
        expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        expect(ledger["uplink_dropped"] == 0, f"{ledger['uplink_dropped']} frames lost at the TAP")
        expect(device["hangs"] == 0, f"the transmitter hung {device['hangs']} times")
        self.budget(counts)
        frames = counts["frames"]
        if not LONG:
            captured = packets(self.directory / "wire.pcapng")
            expect(captured == frames, f"{captured} frames in the capture, {frames} in the ledger")
            (self.directory / "wire.pcapng").unlink()
        for name in (
            "mmio_writes",
            "mmio_reads",
            "line_interrupts",
            "pci_read_bytes",
            "pci_write_bytes",
        ):
            print(
                f"      {name} {ledger[name] / frames:.3f} a frame",
                end=";" if name != "pci_write_bytes" else "\n",
            )

    all = [probe, ping, iperf_both_ways, statistics_equal_counters, self_test, ring_sizes, speeds]
    all += [
        flow_control,
        offloads_off_and_on,
        vlan,
        jumbo,
        promiscuous,
        link_flaps,
        reload,
        another_guest,
        bill,
    ]
    # Of another card of the family, where it is not the long run: what its part of driver and
    # device alone does.
    few = [probe, ping, iperf_both_ways, statistics_equal_counters, self_test, jumbo, bill]
