"""Linux's ibmvnic and ibmveth behind our hypervisor: a ppc64le guest whose calls the plug-in hands
to the server."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import socket
import subprocess
import time
import urllib.request

from beside import TAKEN, Case, Row, beside
from guest import PATIENCE, Failed, Guest, Server, counts, initramfs
from rig import GUEST, HOST, LONG, MAC, OTHER, Rig, expect, numbers, packets, tap, tcp_checksums

PLUGIN = pathlib.Path("target/debug/libdoorbell_plugin.so").absolute()
# ibmvnic is built from Debian's kernel source (tools/guest/kernel.sh); ibmveth is Debian's.
MODULES = (
    "ibmveth",
    "ibmvnic",
    "pktgen",
    "failover",
    "net_failover",
    "virtio_net",
    "llc",
    "stp",
    "bridge",
)


class CallServer(Server):
    """A server that is reached by hypervisor calls."""

    SOCKET = "--plugin-socket"


class VnicServer(CallServer):
    """With a pipe for commands."""

    def __init__(self, binary, device, uplink, directory, *more):
        self.pipe = directory / "control"
        self.pipe.unlink(missing_ok=True)
        os.mkfifo(self.pipe)
        super().__init__(binary, device, uplink, directory, "--control", self.pipe, *more)

    def command(self, line):
        with open(self.pipe, "w") as pipe:
            pipe.write(line + "\n")


class Power(Guest):
    """QEMU's `pseries` machine with the plug-in."""

    def __init__(self, cache, initrd, socket, directory, device, unit, cpus=1, mac=MAC, extra=()):
        # Without KVM the mitigations for speculation cannot be had, and QEMU says so. x-vof: no
        # firmware to wait for.
        machine = (
            "pseries,x-vof=on,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off,"
            "memory-backend=ram"
        )
        options = ["-M", machine, "-smp", str(cpus), "-plugin", f"file={PLUGIN},socket={socket}"]
        options += ["-device", f"doorbell-{device},reg={unit:#x},mac={mac}", *extra]
        self.start(cache, initrd, directory, options, "hvc0", "qemu-system-ppc64")


class Papr(Rig):
    """What both have in common."""

    SERVE = ()
    SERVER = CallServer
    KNOWN = (
        "loading out-of-tree module taints kernel",
        "module verification failed",
        # Both drivers go on polling after they have rescheduled themselves, and then reach the
        # budget; the kernel says so once.
        "Budget exhausted after napi rescheduled",
    )
    DEVICE, UNIT = None, 0

    @staticmethod
    def parts(cache, initrd):
        cache = cache.parent / "ppc64el"
        initrd = initrd.with_name("initrd-ppc64el")
        initramfs(cache, MODULES, initrd, "powerpc64le-linux-gnu", "lib64/ld64.so.2")
        return cache, initrd

    def machine(self, cache, initrd, cpus):
        self.made_of = cache, initrd
        return Power(
            cache, initrd, self.server.socket, self.directory, self.DEVICE, self.UNIT, cpus
        )

    def captured(self):
        """Bytes of the capture so far."""
        return sum(c.stat().st_size for c in self.directory.glob(".capture-*"))

    def on_the_wire(self, since):
        """TCP checksums of what the guest sent, in the capture from byte `since` on."""
        captures = list(self.directory.glob(".capture-*"))
        if not captures:
            print("      the wire was not looked at: a long run keeps no capture")
            return
        print(
            f"      {tcp_checksums(captures[0], GUEST, self.directory, since)} segments, all right"
        )

    def serve(self, name, *more, device=None):
        """A server of its own, so that this one's ledger goes on: its directory and process."""
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        (directory / "socket").unlink(missing_ok=True)
        line = [
            self.server.process.args[0],
            "serve",
            device or self.DEVICE,
            "--plugin-socket",
            directory / "socket",
        ]
        server = subprocess.Popen(
            [*line, "--quiet", "--format", "json", *more], stdout=subprocess.PIPE, text=True
        )
        until = time.monotonic() + PATIENCE
        while not (directory / "socket").exists() and time.monotonic() < until:
            time.sleep(0.02)
        return directory, server

    def server_dies(self):
        """Without a server the guest's calls are answered H_CLOSED, and it lives on; a new server
        has a new guest."""
        guest = None
        directory, server = self.serve("dies")
        try:
            guest = Power(*self.made_of, directory / "socket", directory, self.DEVICE, self.UNIT)
            guest.run(
                f"insmod /m/{self.MODULE}.ko; ip link set eth0 up; sleep 1; cat "
                f"/sys/class/net/eth0/carrier"
            )
            server.kill()
            server.wait()
            guest.run(f"ping -c 2 -i 0.1 -W 1 {HOST}; ip link set eth0 down; sleep 1; true")
            expect("alive" in guest.run("echo alive"), "the guest lives on")
            expect("H_CLOSED" in guest.errors.read_text(), "the plug-in says so")
            guest.stop()
        finally:
            for it in (guest, server):
                if it:
                    it.kill()

    def bill(self):
        """At the end: nothing was lost without a name, and the capture holds the wire."""
        self.guest.stop()
        counts = self.server.stop()
        ledger, frames = counts["ledger"], max(1, counts["frames"])
        expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        expect(ledger["uplink_dropped"] == 0, f"{ledger['uplink_dropped']} frames lost at the TAP")
        if not LONG:
            captured = packets(self.directory / "wire.pcapng")
            expect(
                captured == counts["frames"],
                f"{captured} frames in the capture, {counts['frames']} in the ledger",
            )
            (self.directory / "wire.pcapng").unlink()
        calls = [n for n in ledger if n.startswith("hcall") and ledger[n] > 0]
        for name in [*calls, "tce_hcalls", "tce_puts", "messages"]:
            print(f"      {name} {ledger[name] / frames:.3f} a frame")


# What crosses a trunk each way, in bytes.
TRUNK_BYTES = 8 << 20
MSS = 1448
# ibmveth since 6.1, of a packet with a list of fragments.
LIST_DROPPED = "tx: incorrect packet len copied into ltb"


def given(listening, data):
    """Sends it to the first to connect, who then closes."""
    listening.settimeout(PATIENCE)
    connection, _ = listening.accept()
    with connection:
        connection.sendall(data)


def moved(guest):
    """The packets of its first interface."""
    names = ("tx_packets", "rx_packets", "tx_dropped")
    out = guest.run("cd /sys/class/net/eth0/statistics; cat " + " ".join(names) + "; cd /")
    return dict(zip(names, map(int, out.split())))


def total(numbers, kind):
    """The sum of all queues' counters of that name."""
    return sum(v for k, v in numbers.items() if k.startswith("tx") and k.endswith(kind))


class Ibmvnic(Papr):
    """ibmvnic."""

    MODULE, DEVICE, UNIT = "ibmvnic", "vnic", 0x30000003
    INTERRUPTS = ("ibmvnic",)
    SERVER = VnicServer
    # Warnings of the driver that are due. After a change of queues, MTU or rings it asks for the
    # buffers of the session that it has ended to be unmapped, which the server has done by itself.
    UNMAPPED = ("Error 4 in REQUEST_UNMAP_RSP",)
    # A send between the end of a session and the transport event that says so: there is no session
    # (H_CLOSED), or one that the handle is not of (H_PARAMETER).
    CLOSED = tuple(
        f"send_subcrq_{path} failed: {why}"
        for path in ("direct", "indirect")
        for why in (
            "Backing queue closed. Adapter is down or failover pending. (rc=2)",
            "Send request is malformed or adapter failover pending. (rc=-4)",
        )
    )
    # A fatal error of the adapter; and that the link of a session that this has ended cannot be set
    # down (INVALIDSTATE).
    FATAL = (
        "Firmware reports FATAL error, cause: adapter problem. Starting recovery...",
        "Unable to set link state, rc=7",
    )

    def settled(self):
        """Link up, after whatever reset the driver does by itself."""
        self.carrier("1")
        self.up()
        self.ping_once()

    def direct_and_batched(self):
        """Direct and batched packets of `ethtool -S` are the ledger's calls and the device's
        frames, all queues together."""
        n0, c0 = numbers(self.guest), self.server.counts()
        # One at a time, nothing to share a call with: the direct path.
        self.guest.run(f"ping -q -c 300 -i 0.002 {HOST}")
        c1, n1 = self.at_rest(), numbers(self.guest)
        self.iperf(2)
        c2, n2 = self.at_rest(), numbers(self.guest)
        for what, (na, ca), (nb, cb) in (
            ("ping", (n0, c0), (n1, c1)),
            ("iperf", (n1, c1), (n2, c2)),
        ):
            d = lambda name: cb.get(name, 0) - ca.get(name, 0)
            direct = total(nb, "_direct_packets") - total(na, "_direct_packets")
            batched = total(nb, "_batched_packets") - total(na, "_batched_packets")
            expect(
                direct == d("hcall_send_sub_crq"),
                f"{what}: {direct} direct, {d('hcall_send_sub_crq')} calls",
            )
            expect(
                direct + batched == d("device_tx_taken"),
                f"{what}: {direct} + {batched}, {d('device_tx_taken')} frames",
            )
            calls = d("device_indirect_calls") - d("device_rx_add_calls")
            print(f"      {what}: {direct} packets direct, {batched} in {calls} arrays")
            if what == "ping":
                expect(direct >= 290, "a request-response load goes direct")
            else:
                expect(0 < calls <= batched, f"{calls} arrays for {batched} packets")
                # TCP's headers, large send or not: 66 to 74 bytes, in descriptors of 24, 29 and 29.
                # A direct one has none.
                given = d("device_descriptors") - d("device_rx_buffers")
                expect(
                    given == direct + 4 * batched,
                    f"{given} descriptors for {direct} direct and {batched} in arrays",
                )

    def offloads(self):
        """Large sends and checksums: descriptors of both, and right on the wire."""
        for large in ("on", "off"):
            self.guest.run(f"ethtool -K eth0 tso {large}")
            before, since = self.server.counts(), self.captured()
            self.iperf(2)
            after = self.server.counts()
            d = lambda name: after.get(name, 0) - before.get(name, 0)
            sends, sums = d("device_large_sends"), d("device_tx_checksums")
            print(f"      {sends} large sends, {sums} checksums, {d('wire_frames')} frames")
            expect(
                sends > 0 if large == "on" else sends == 0 and sums > 0,
                f"{large}: {sends} large sends, {sums} checksums",
            )
            self.on_the_wire(since)
        self.guest.run("ethtool -K eth0 tso on")

    def queues(self):
        """Channels: fewer and more of them."""
        shown = self.guest.run("ethtool -l eth0")
        for n in (1, 2, 4):
            self.guest.run(f"ethtool -L eth0 rx {n} tx {n}")
            self.settled()
        self.quiet(*self.UNMAPPED)
        expect("RX" in shown, shown)

    def beside_ours(self):
        """What a frame costs, beside our own driver's on the same traffic."""
        cases = [
            Case("sent one at a time, 60 bytes", "send", 60, 1),
            Case("the same, checksum left to the driver", "send", 60, 1, True),
            Case("1514 bytes, checksum left to the driver", "send", 1514, 1, True),
            Case("sent in bursts of 4, checksum left", "send", 60, 4, True),
            Case("sent in bursts of 32", "send", 60, 32),
            Case("sent in bursts of 32, checksum left", "send", 60, 32, True),
            Case("received one at a time, 60 bytes", "receive", 60, 1),
            Case("received in bursts of 16, 1514 bytes", "receive", 1514, 16),
            Case("answered one by one, 98 bytes", "answer", 98, 1),
        ]
        jumbo = [
            Case("MTU 9000, 9014 bytes, checksum left to the driver", "send", 9014, 1, True),
            Case("MTU 9000, answered one by one, 9014 bytes", "answer", 9014, 1),
        ]
        plus = lambda *names: {n: 1 for n in names}
        # Both fill up a pool when less than half of it is out, each from where it stands.
        pool = int(self.guest.run("ethtool -g eth0 | grep '^RX:' | tail -1").split()[1])
        rows = [
            Row("H_SEND_SUB_CRQ", plus("hcall_send_sub_crq")),
            Row("arrays sent", {"device_indirect_calls": 1, "device_rx_add_calls": -1}),
            Row("descriptors sent", {"device_descriptors": 1, "device_rx_buffers": -1}),
            Row("header bytes with them", plus("device_header_bytes")),
            Row("checksums left to the server", plus("device_tx_checksums")),
            Row("receive buffers given", plus("device_rx_buffers"), pool // 2 + 16),
            Row("arrays of those", plus("device_rx_add_calls"), pool // 32 + 2),
            Row("H_VIOCTL", plus("hcall_vioctl"), None),
            Row("interrupts taken", plus(TAKEN), None),
            Row("messages of the server", plus("messages"), None),
            Row("TCE entries written", plus("tce_puts")),
            Row("other calls", plus("hcall_send_crq", "hcall_other", "hcall_vio_signal")),
        ]
        # The served server waits for no other completion, and the lab's profile has one that does.
        beside(self, "ibmvnic-paced", cases, rows, nic__completion_wait=0, driver__rx_entries=pool)
        # Buffers of sixteen queues at this MTU are more than such a guest has in one piece.
        self.guest.run("ethtool -L eth0 rx 1 tx 1")
        self.settled()
        self.guest.run("ip link set eth0 mtu 9000")
        self.carrier("1")
        self.up(mtu=9000)
        beside(
            self,
            "ibmvnic-paced",
            jumbo,
            rows,
            nic__completion_wait=0,
            driver__rx_entries=pool,
            driver__mtu=9000,
        )
        self.guest.run("ip link set eth0 mtu 1500")
        self.settled()
        self.guest.run("ethtool -L eth0 rx 16 tx 16")
        self.settled()
        self.quiet(*self.UNMAPPED)

    def failover(self):
        """The client asks for a failover under load; the other server takes over, and the load goes
        on."""
        before = self.server.counts()
        for _ in range(3):
            self.guest.run(
                f"ping -q -i 0.01 -c 400 {HOST} >/tmp/ping & sleep 1; echo 1 "
                f">/sys/devices/vio/{self.UNIT:x}/failover; wait"
            )
            self.settled()
        after = self.server.counts()
        done = after["device_client_failovers"] - before["device_client_failovers"]
        print(f"      {done} failovers; {self.guest.run('grep loss /tmp/ping').strip()}")
        expect(done == 3, f"{done} failovers")
        self.guest.run(f"ping -q -c 5 -i 0.05 -W 2 {HOST}")
        self.quiet(*self.CLOSED)

    def failover_and_migration(self):
        """The server's side begins it, under TCP in both directions: failovers, a migration, an
        error; nothing is lost without a name."""
        events = ["failover", "migrate", "failover", "error", "migrate", "failover"] * (
            4 if LONG else 1
        )
        for way in ("", "-R"):
            before = self.server.counts()
            server = subprocess.Popen(["iperf3", "-s", "-1", "-B", HOST], stdout=subprocess.DEVNULL)
            # TCP waits longer from one attempt to the next; this says when frames pass again.
            pings = subprocess.Popen(["ping", "-q", "-i", "0.02", GUEST], stdout=subprocess.DEVNULL)
            try:
                time.sleep(0.3)
                self.guest.run(
                    f"iperf3 -c {HOST} -t {4 * len(events)} -f m {way} >/tmp/load 2>&1 & echo $! "
                    f">/tmp/pid"
                )
                took = []
                for event in events:
                    time.sleep(1.5)
                    took.append(self.recovers(event))
                self.guest.run("while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.2; done")
            finally:
                for it in (pings, server):
                    it.kill()
                    it.wait()
            said = self.guest.run("cat /tmp/load")
            expect("receiver" in said, f"the load did not come to its end: {said[-500:]}")
            rate = (
                [l for l in said.splitlines() if "receiver" in l][-1].split("Mbits")[0].split()[-1]
            )
            after = self.at_rest()
            d = lambda name: after[f"device_{name}"] - before[f"device_{name}"]
            known = [
                ("failovers", "failover"),
                ("migrations", "migrate"),
                ("errors_reported", "error"),
            ]
            for counter, event in known:
                expect(
                    d(counter) == events.count(event),
                    f"{d(counter)} {counter}, {events.count(event)} asked for",
                )
            lost = [n for n in ("tx_lost", "tx_discarded", "tx_errors") if d(n)]
            ended = d("tx_sent") + d("tx_errors") + d("tx_discarded") + d("tx_lost")
            expect(d("tx_taken") == ended, f"{d('tx_taken')} frames taken, {ended} known")
            names = (
                "rx_no_buffer",
                "rx_malformed",
                "rx_faults",
                "rx_off",
                "rx_lost",
                "rx_filtered",
            )
            lost += [n for n in names if d(n)]
            came = after["arrived_frames"] - before["arrived_frames"]
            named = d("rx_packets") + sum(d(n) for n in names)
            expect(came == named, f"{came} frames arrived, {named} known")
            print(
                f"      {'into' if way else 'out of'} the guest: {rate} Mbit/s; "
                + ", ".join(f"{n} {d(n)}" for n in lost),
                end="",
            )
            print("; back after " + ", ".join(f"{t:.1f}" for t in took) + " s")
            self.settled()
        self.quiet(*self.CLOSED, *self.FATAL)
        self.guest.run(f"ping -q -c 20 -i 0.05 -W 2 {HOST}")

    def recovers(self, event):
        """Has it happen: seconds until frames go through a session that began after it."""
        start, since = self.server.counts(), time.monotonic()
        self.server.command(event)
        while time.monotonic() < since + PATIENCE:
            time.sleep(0.1)
            now = self.server.counts()
            if (
                now["device_sessions"] > start["device_sessions"]
                and now["device_rx_packets"] > start["device_rx_packets"] + 20
            ):
                return time.monotonic() - since
        raise Failed(
            f"no traffic {PATIENCE} s after `{event}`: "
            f"{self.guest.run('dmesg | tail -20; cat /sys/class/net/eth0/carrier', check=False)}"
        )

    def several_adapters(self):
        """Two vNICs and a logical LAN in one guest of two CPUs, each with a server and a wire of
        its own, all busy at once."""
        kinds = [("vnic", 0x30000003), ("vnic", 0x30001003), ("veth", 0x30002002)]
        guest, servers, more = None, [], []
        try:
            for n, (kind, unit) in enumerate(kinds):
                tap(f"wire{n}", f"10.0.{4 + n}.2/24")
                servers.append(
                    self.serve(
                        f"several-{n}", "--unit", hex(unit), "--uplink", f"tap:wire{n}", device=kind
                    )
                )
                if n:
                    more += ["-plugin", f"file={PLUGIN},socket={servers[n][0] / 'socket'}"]
                    more += ["-device", f"doorbell-{kind},reg={unit:#x},mac={MAC[:-1]}{n + 1}"]
            here = servers[0][0]
            guest = Power(*self.made_of, here / "socket", here, *kinds[0], cpus=2, extra=more)
            guest.run(
                "insmod /m/ibmvnic.ko && insmod /m/ibmveth.ko && cat /sys/class/net/eth2/address"
            )
            for n in range(3):
                guest.run(f"ip link set eth{n} up && ip addr add 10.0.{4 + n}.1/24 dev eth{n}")
                guest.run(f"for i in $(seq 20); do ping -q -c 1 -W 1 10.0.{4 + n}.2 && break; done")
            busy = [
                f"ping -q -c 100 -i 0.02 -s 1400 10.0.{4 + n}.2 >/tmp/ping{n} &" for n in range(3)
            ]
            guest.run(" ".join(busy) + " wait")
            guest.stop()
            for n, (_, server) in enumerate(servers):
                server.terminate()
                counts = json.loads(server.communicate(timeout=PATIENCE)[0])
                ledger, device = counts["ledger"], counts["device_counters"]
                sends = ledger["hcall_send" if kinds[n][0] == "veth" else "hcall_send_sub_crq"]
                # `ping` counts as lost what comes late; the device knows what it did not pass on.
                lost = {
                    k: v
                    for k, v in device.items()
                    if v
                    and k.removeprefix("rx_")
                    in ("no_buffer", "dropped", "malformed", "faults", "lost")
                }
                expect(
                    device["rx_packets"] >= 100 and not lost,
                    f"{kinds[n]}: {device['rx_packets']} received, {lost}",
                )
                expect(
                    sends >= 100 and ledger["dma_faults"] == 0,
                    f"{kinds[n]}: {sends} sends, {ledger['dma_faults']} faults",
                )
                print(
                    f"      {kinds[n][0]} {kinds[n][1]:#x}: {sends} sends, {ledger['posted']} of "
                    f"them posted, {ledger['messages']} interrupts"
                )
        finally:
            for it in (guest, *(s for _, s in servers)):
                if it:
                    it.kill()

    def link_flaps(self):
        """The interface down and up, and the cable out and in."""
        for _ in range(3):
            self.guest.run("ip link set eth0 down; ip link set eth0 up")
            self.carrier("1")
        self.up()
        self.server.pull_or_put_cable()
        self.carrier("0")
        self.server.pull_or_put_cable()
        self.settled()
        self.quiet()

    def jumbo(self):
        """MTU 9000, for which the driver logs in anew."""
        # Buffers of sixteen queues at this MTU are more than such a guest has in one piece.
        self.guest.run("ethtool -L eth0 rx 4 tx 4 || true")
        self.settled()
        self.guest.run("ip link set eth0 mtu 9000")
        self.carrier("1")
        self.up(mtu=9000)
        self.guest.run(f"ping -q -c 5 -i 0.05 -W 2 -M do -s 8900 {HOST}")
        self.iperf(2)
        self.guest.run("ip link set eth0 mtu 1500")
        self.settled()
        self.quiet(*self.UNMAPPED)

    all = [
        Rig.probe,
        Rig.ping,
        Rig.iperf_both_ways,
        direct_and_batched,
        beside_ours,
        offloads,
        queues,
        link_flaps,
        jumbo,
        failover,
    ]
    all += [
        failover_and_migration,
        Rig.reload,
        several_adapters,
        Papr.server_dies,
        Rig.another_guest,
        Papr.bill,
    ]


class Ibmveth(Papr):
    """ibmveth."""

    MODULE, DEVICE, UNIT = "ibmveth", "veth", 0x30000002
    INTERRUPTS = ("eth0",)

    def two_guests(self):
        """Two guests on one hypervisor: frames of one arrive in the other, large ones whole."""
        guests = []
        directory, server = self.serve("two", "--partitions", "2")
        try:
            for n, mac in ((1, MAC), (3, OTHER)):
                here = directory / str(n)
                here.mkdir(exist_ok=True)
                guest = Power(
                    *self.made_of, directory / "socket", here, self.DEVICE, self.UNIT, mac=mac
                )
                guests.append(guest)
                guest.run(
                    f"insmod /m/{self.MODULE}.ko && ip link set eth0 up && ip addr add "
                    f"10.0.0.{n}/24 dev eth0"
                )
            a, b = guests
            a.run("for i in 1 2 3 4 5; do ping -q -c 1 -W 1 10.0.0.3 && break; done")
            a.run("ping -q -c 20 -i 0.02 -W 2 -s 1400 10.0.0.3")
            a.run("ethtool -K eth0 tso on")
            b.run("iperf3 -s -D -1")
            out = a.run("sleep 0.5; iperf3 -c 10.0.0.3 -t 3 -f m")
            for g in guests:
                g.stop()
            server.terminate()
            counts = json.loads(server.communicate(timeout=PATIENCE)[0])
            device, ledger = counts["device_counters"], counts["ledger"]
            rate = (
                [l for l in out.splitlines() if "receiver" in l][-1].split("Mbits")[0].split()[-1]
            )
            print(
                f"      {rate} Mbit/s between them; {ledger['hcall_send']} sends, "
                f"{ledger['wire_frames']} frames out of the switch"
            )
            expect(
                device["rx_large"] > 0 and device["rx_large"] == device["tx_large"],
                "large sends arrive whole",
            )
            expect(
                counts["clients"] == 2 and ledger["hcall_send"] > 100, f"{counts['clients']} guests"
            )
            expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        finally:
            for it in (*guests, server):
                it.kill()

    def offloads(self):
        """`ethtool -k` with all of them, large send on and off, and what is on the wire is
        right."""
        shown = self.guest.run("ethtool -k eth0")
        for wanted in (
            "tx-checksum-ipv4: on",
            "tx-checksum-ipv6: on",
            "rx-checksumming: on",
            "scatter-gather: on",
        ):
            expect(wanted in shown, shown)
        # TCP makes its sends smaller where it is slow, down to two segments; here as many as this.
        self.guest.run("echo 16 >/proc/sys/net/ipv4/tcp_min_tso_segs")
        sent, since = {}, self.captured()
        for large in ("on", "off"):
            self.guest.run(f"ethtool -K eth0 tso {large}")
            self.up()
            before = self.server.counts()
            rate = self.iperf(2)
            after = self.server.counts()
            d = lambda name: after.get(name, 0) - before.get(name, 0)
            sent[large] = d("wire_frames") / max(1, d("hcall_send"))
            each = {
                n: d(n) / max(1, d("hcall_send")) for n in ("device_tx_descriptors", "tce_puts")
            }
            print(
                f"      large send {large}: {rate:.0f} Mbit/s, {sent[large]:.1f} frames of the "
                f"wire a call, ",
                end="",
            )
            print(
                f"{each['device_tx_descriptors']:.3f} descriptors, {each['tce_puts']:.3f} TCE "
                f"entries"
            )
            # A copy in a buffer that is mapped for good: one descriptor, whatever the frame. What
            # comes is short, and copied out.
            expect(each["device_tx_descriptors"] == 1 and each["tce_puts"] < 0.02, f"{each}")
        expect(sent["on"] > 2 and sent["off"] <= 1.01, f"{sent}")
        line = [
            self.binary,
            "run",
            "ibmveth-packets",
            "--set",
            "traffic.form=copy",
            "--format",
            "json",
            "--quiet",
        ]
        ledger = json.loads(
            subprocess.run(line, check=True, capture_output=True, text=True).stdout
        )["ledger"]
        ours = (
            ledger["device_server_tx_descriptors"] / ledger["hcall_send"],
            ledger["driver_server_tx_copied"] / ledger["hcall_send"],
        )
        print(f"      ours, of copies: {ours[0]:.3f} descriptors a large send")
        expect(ours == (1, 1), f"ours: {ours}")
        self.on_the_wire(since)
        self.guest.run("ethtool -K eth0 tso on")
        self.quiet()

    def trunk(self):
        """TCP over a trunk that is bridged to a vNIC, both ways, with large sends and without."""
        tap("outside", "10.0.7.2/24")
        guests, lan_metrics, nic_metrics = [], 9102, 9103
        directory, lan = self.serve(
            "trunk", "--partitions", "2", "--trunk", "--metrics", f"127.0.0.1:{lan_metrics}"
        )
        capture = directory / "outside.pcapng"
        outside = [
            "--uplink",
            "tap:outside",
            "--capture",
            capture,
            "--metrics",
            f"127.0.0.1:{nic_metrics}",
        ]
        there, nic = self.serve("trunk-nic", "--unit", "0x30001003", *outside, device="vnic")
        try:
            for n, mac in ((1, MAC), (3, OTHER)):
                here = directory / str(n)
                here.mkdir(exist_ok=True)
                more = ["-plugin", f"file={PLUGIN},socket={there / 'socket'}"]
                more += ["-device", "doorbell-vnic,reg=0x30001003,mac=52:54:00:db:00:77"]
                guest = Power(
                    *self.made_of,
                    directory / "socket",
                    here,
                    self.DEVICE,
                    self.UNIT,
                    mac=mac,
                    extra=more if n == 1 else (),
                )
                guests.append(guest)
                guest.run(f"insmod /m/{self.MODULE}.ko && ip link set eth0 up")
            trunk, inside = guests
            trunk.run("for m in ibmvnic llc stp bridge; do insmod /m/$m.ko; done")
            trunk.run(
                "ip link add br0 type bridge && ip link set br0 up && for i in eth0 eth1; do ip "
                "link set $i up master br0; done"
            )
            # Where GRO makes one packet of large ones and small ones from the LAN, their pieces are
            # of all lengths, and Linux ends in a BUG_ON when the bridge has them cut (skb_segment).
            trunk.run("ethtool -K eth0 gro off")
            # The bridge makes its ports promiscuous, and ibmvnic asks for that when it logs in,
            # which it has: a change has it do so anew.
            trunk.run("ethtool -L eth1 rx 1 tx 1")
            inside.run("ip addr add 10.0.7.3/24 dev eth0")
            inside.run(
                f"dd if=/dev/urandom of=/tmp/out bs=64k count={TRUNK_BYTES >> 16} 2>/dev/null"
            )
            # TCP makes its sends smaller where it is slow, down to two segments; here as many as
            # this.
            inside.run("echo 16 >/proc/sys/net/ipv4/tcp_min_tso_segs && httpd -p 5301 -h /tmp")
            reached = lambda: inside.run(
                "for i in $(seq 30); do ping -q -c 1 -W 1 10.0.7.2 && break; sleep 1; done; ping "
                "-q -c 1 -W 5 10.0.7.2"
            )
            for guest in guests:
                guest.run("dmesg -c >/dev/null")
            # The kernel merges what it receives. Of more than 17 segments it makes a list, which
            # this driver says that it takes, and drops: the last case. Before that no more are
            # merged.
            for large, merged, ways in (
                ("off", 16384, "out in"),
                ("on", 16384, "out in"),
                ("on", 65536, "in"),
            ):
                for guest in guests:
                    guest.run(f"ethtool -K eth0 tso {large}")
                trunk.run(f"ip link set eth1 gro_max_size {merged}")
                reached()
                for way in ways.split():
                    seen = lambda: (
                        *map(numbers, guests),
                        *map(moved, guests),
                        counts(lan_metrics),
                        counts(nic_metrics),
                    )
                    before = seen()
                    try:
                        (self.trunk_out if way == "out" else self.trunk_in)(inside)
                    except OSError:
                        for guest in guests:
                            # One that has ended says why.
                            guest.run("true")
                        raise
                    added = [{k: b[k] - a.get(k, 0) for k in b} for a, b in zip(before, seen())]
                    print(f"      {way}, large send {large}, merged up to {merged} B: ", end="")
                    said = trunk.run("dmesg -r").count(LIST_DROPPED)
                    self.trunk_holds(way == "out", large == "on", said, *added)
                    self.quiet(guest=inside)
                    self.quiet(*[LIST_DROPPED] * (merged > 16384), guest=trunk)
            for g in guests:
                g.stop()
            for server in (lan, nic):
                server.terminate()
                ledger = json.loads(server.communicate(timeout=PATIENCE)[0])["ledger"]
                expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
            for source in ("10.0.7.3", "10.0.7.2"):
                print(
                    f"      {tcp_checksums(capture, source, self.directory)} segments from "
                    f"{source} on the wire, all right"
                )
            capture.unlink()
        finally:
            for it in (*guests, lan, nic):
                it.kill()

    @staticmethod
    def trunk_out(inside):
        """Sends a file to the host, and compares."""
        got = urllib.request.urlopen("http://10.0.7.3:5301/out", timeout=PATIENCE).read()
        said = inside.run("sha256sum </tmp/out").split()[0]
        expect(
            hashlib.sha256(got).hexdigest() == said and len(got) == TRUNK_BYTES,
            f"{len(got)} bytes, not what the guest has",
        )

    @staticmethod
    def trunk_in(inside):
        """Gets a file from the host, and compares."""
        data = random.Random(1).randbytes(TRUNK_BYTES)
        with (
            socket.create_server(("10.0.7.2", 5302)) as listening,
            concurrent.futures.ThreadPoolExecutor() as pool,
        ):
            pool.submit(given, listening, data)
            said = inside.run("nc 10.0.7.2 5302 </dev/null | sha256sum").split()[0]
        expect(said == hashlib.sha256(data).hexdigest(), "the guest has what the host sent")

    @staticmethod
    def trunk_holds(out, large, lists, trunk, inside, trunk_moved, inside_moved, lan, nic):
        """Judges what one way added to all counters, and to the log's dropped `lists`."""
        sender, receiver, sent = (
            (inside, trunk, inside_moved) if out else (trunk, inside, trunk_moved)
        )
        calls, dropped = sent["tx_packets"], sent["tx_dropped"]
        frames = nic["wire_frames"] if out else nic["arrived_frames"]
        whole, came = sender["tx_large_packets"], receiver["rx_large_packets"]
        each, taken = TRUNK_BYTES / calls, TRUNK_BYTES / nic["device_tx_taken"]
        print(
            f"{each:.0f} B a call; {whole} large sends, {came} came whole, {dropped} lists "
            f"dropped; {frames} frames on the wire"
            + (f", {taken:.0f} B a frame given to the NIC" if out else "")
        )
        expect(frames >= TRUNK_BYTES / MSS, f"{frames} frames on the wire")
        expect(
            lan["device_tx_packets"] == lan["device_rx_packets"],
            f"{lan['device_tx_packets']} sent, {lan['device_rx_packets']} received",
        )
        expect(
            whole - dropped == came and dropped == lists,
            f"{whole} large sends, {dropped} dropped, {lists} lists, {came} came whole",
        )
        of_the_lan = [lan.get(f"device_{way}_large", 0) for way in ("tx", "rx")]
        expect(
            of_the_lan == [came, came], f"the LAN had {of_the_lan} large sends, the guests {came}"
        )
        if not large:
            expect(
                came == 0 and each <= MSS,
                f"without large sends: {came} of them, {each:.0f} B a call",
            )
        elif out:
            # Sixteen segments at the least, but where the window ends.
            expect(
                min(each, taken) > 8 * MSS,
                f"{each:.0f} B a call, {taken:.0f} B a frame given to the NIC",
            )
        else:
            # As many segments as were there at a poll.
            expect(came > 0 and each > 2 * MSS, f"{each:.0f} B a call")

    def link_flaps(self):
        """The interface down and up."""
        for _ in range(5):
            self.guest.run("ip link set eth0 down; ip link set eth0 up")
            self.carrier("1")
        self.up()
        self.ping_once()
        self.quiet()

    def statistics_equal_counters(self):
        """The driver's counters are the device's."""

        def both():
            names = ("rx_packets", "tx_packets")
            out = self.guest.run(
                "cd /sys/class/net/eth0/statistics; cat " + " ".join(names) + "; cd /"
            )
            return dict(zip(names, map(int, out.split()))), self.server.counts()

        s0, c0 = both()
        self.guest.run(f"ping -q -c 50 -i 0.01 -s 700 {HOST}")
        self.at_rest()
        s1, c1 = both()
        sent, taken = s1["tx_packets"] - s0["tx_packets"], s1["rx_packets"] - s0["rx_packets"]
        expect(
            sent == c1["hcall_send"] - c0["hcall_send"],
            f"{sent} packets, {c1['hcall_send'] - c0['hcall_send']} calls",
        )
        expect(
            taken == c1["arrived_frames"] - c0["arrived_frames"],
            f"{taken} packets, {c1['arrived_frames'] - c0['arrived_frames']} frames",
        )

    def beside_ours(self):
        """What a frame costs, beside our own driver's on the same traffic."""
        cases = [
            Case("sent one at a time, 60 bytes", "send", 60, 1),
            Case("1514 bytes, checksum left to the driver", "send", 1514, 1, True),
            Case("sent in bursts of 32", "send", 60, 32),
            Case("received one at a time, 60 bytes", "receive", 60, 1),
            Case("received one at a time, 1514 bytes", "receive", 1514, 1),
            Case("received in bursts of 16, 1514 bytes", "receive", 1514, 16),
            Case("answered one by one, 98 bytes", "answer", 98, 1),
        ]
        plus = lambda *names: {n: 1 for n in names}
        rows = [
            Row("H_SEND_LOGICAL_LAN", plus("hcall_send")),
            Row("descriptors sent", plus("device_tx_descriptors")),
            # A pool of 512 is filled up when more than an eighth of it is gone, and the guest's was
            # not full at the beginning.
            Row("receive buffers lent", plus("device_buffers_added"), 65),
            Row("H_ADD_LOGICAL_LAN_BUFFER", plus("hcall_add_buffer", "hcall_add_buffers"), 65),
            Row("calls for TCEs", plus("tce_hcalls"), 2 * 65),
            # Where the kernel puts a buffer of 2 KiB, a page of 4 KiB ends in every other one; the
            # lab's are aligned.
            Row("TCE entries written or cleared", plus("tce_puts"), None),
            Row("H_VIO_SIGNAL", plus("hcall_vio_signal", "hcall_signal"), None),
            Row("interrupts taken", plus(TAKEN), None),
            Row("messages of the LAN", plus("messages"), None),
        ]
        beside(self, "ibmveth-paced", cases, rows)

    all = [
        Rig.probe,
        Rig.ping,
        Rig.iperf_both_ways,
        statistics_equal_counters,
        beside_ours,
        offloads,
        two_guests,
        trunk,
        link_flaps,
        Rig.jumbo,
    ]
    all += [Rig.reload, Papr.server_dies, Rig.another_guest, Papr.bill]
