"""Linux's axienet on the served AXI Ethernet, in an arm64 guest: its checks, and interrupts as
coalescing was set."""

import collections
import json
import os
import random
import re
import socket
import subprocess
import time

import axi_tree
import fdt
from beside import TAKEN, Case, Row, beside
from guest import PATIENCE, QEMU, Guest, initramfs
from rig import (
    GUEST,
    HOST,
    LONG,
    MAC,
    Rig,
    expect,
    frame,
    host,
    packets,
    tap,
    tcp_checksums,
    timing,
    until,
)

# In the order in which they are needed; the last two are built from Debian's kernel source
# (tools/guest/kernel.sh).
MODULES = ("phylink", "rp1_pci", "xilinx_dma", "xilinx_emac")
LOADED_LATER = ("pktgen",)
SLOT = 8


class Arm(Guest):
    """QEMU's `virt` machine, with a device tree that has the served device."""

    EMULATOR = "qemu-system-aarch64"

    def __init__(self, cache, initrd, socket, directory, cpus=1):
        # MSI-X wants an ITS, which came with GICv3.
        machine = "-M virt,gic-version=3,memory-backend=ram{} -cpu cortex-a57"
        options = ["-smp", str(cpus)]
        device = {
            "driver": "vfio-user-pci",
            "bus": "pcie.0",
            "addr": f"{SLOT:02x}.0",
            "socket": {"type": "unix", "path": str(socket)},
        }
        tree, plain = directory / "guest.dtb", directory / "virt.dtb"
        subprocess.run(
            [
                QEMU,
                *machine.format(f",dumpdtb={plain}").split(),
                *options,
            ]
            + "-m 512M -object memory-backend-memfd,id=ram,size=512M,share=on".split()
            + "-display none".split(),
            check=True,
            capture_output=True,
            env={**os.environ, "DOORBELL_GUEST": str(cache), "DOORBELL_EMULATOR": self.EMULATOR},
        )
        root = fdt.read(plain.read_bytes())
        axi_tree.add(root, MAC, SLOT)
        tree.write_bytes(fdt.write(root))
        options += ["-dtb", tree, "-device", json.dumps(device)]
        self.start(
            cache, initrd, directory, machine.format("").split() + options, "ttyAMA0", self.EMULATOR
        )


class Axienet(Rig):
    """axienet."""

    MODULE = "xilinx_emac"
    INTERRUPTS = ("ethernet", "eth0", "axienet")
    SERVE = ()
    KNOWN = (
        # Its module is not Debian's own build, and not signed by Debian.
        "loading out-of-tree module taints kernel",
        "module verification failed",
        # axienet_tx_poll returns all that it found sent, which may be more than its budget; the
        # kernel says so once.
        "NAPI poll function axienet_tx_poll",
    )

    @staticmethod
    def parts(cache, initrd):
        cache = cache.parent / "arm64"
        initrd = initrd.with_name("initrd-arm64")
        initramfs(
            cache, MODULES + LOADED_LATER, initrd, "aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1"
        )
        return cache, initrd

    def machine(self, cache, initrd, cpus):
        self.made_of = cache, initrd
        return Arm(cache, initrd, self.server.socket, self.directory, cpus)

    def probe(self):
        """The unmodified driver binds, and the kernel has nothing to complain about."""
        self.guest.run("dmesg -c >/dev/null")
        for module in MODULES[:-1]:
            self.guest.run(f"insmod /m/{module}.ko")
        self.guest.run(
            f"insmod /m/{self.MODULE}.ko; for i in $(seq 50); do [ -e /sys/class/net/eth0 ] && "
            f"break; sleep 0.1; done"
        )
        self.guest.run("[ -e /sys/class/net/eth0 ]")
        expect(MAC in self.guest.run("cat /sys/class/net/eth0/address"), "the station address")
        expect("driver: xaxienet" in (i := self.guest.run("ethtool -i eth0")), i)
        self.up()
        self.quiet()

    def up(self, mtu=1500):
        # This driver takes another MTU only while it is down.
        self.guest.run(f"[ $(cat /sys/class/net/eth0/mtu) = {mtu} ] || ip link set eth0 down")
        super().up(mtu)

    def registers(self):
        """`ethtool -d`: the DMA engine's CR, transmit and receive, as the device has them."""
        out = self.guest.run("ethtool -d eth0 raw on | od -A n -v -t u4")
        words = [int(w) for w in out.split()]
        # axienet_ethtools_get_regs: two descriptors' worth of MAC registers first.
        return words[self.CR[0]], words[self.CR[1]]

    # Where they are in the dump.
    CR = (32, 36)

    def coalescing(self):
        """`ethtool -C`: frames and microseconds are in the registers, of both channels."""
        for rx, tx in (((16, 40), (8, 20)), ((1, 0), (24, 50)), ((255, 255), (255, 255))):
            self.coalesce(rx, tx)
            seen = [(cr >> 16 & 255, cr >> 24) for cr in reversed(self.registers())]
            expect(seen == [rx, tx], f"asked for {rx} and {tx}, in CR is {seen}")
        self.ping_once()

    def coalesce(self, rx, tx, guest=None):
        (guest or self.guest).run(
            f"ethtool -C eth0 adaptive-rx off rx-frames {rx[0]} rx-usecs {rx[1]} tx-frames {tx[0]} "
            f"tx-usecs {tx[1]}"
        )

    # Frames of a group, and groups.
    THRESHOLDS, GROUPS = (1, 4, 16, 64), 30

    def groups(self, guest):
        """Sends groups of as many frames as the threshold, each once the last is read."""
        full = frame(MAC, size=1514)
        read = lambda: int(guest.run("cat /sys/class/net/eth0/statistics/rx_packets"))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
            s.bind(("traced", 0))
            for frames in self.THRESHOLDS:
                self.coalesce((frames, 255 if frames > 1 else 0), (24, 50), guest)
                first = read()
                for n in range(1, self.GROUPS + 1):
                    for _ in range(frames):
                        s.send(full)
                    expect(
                        until(lambda: read() - first >= n * frames),
                        f"{read() - first} of {n * frames} frames were read",
                    )

    def interrupts_as_set(self):
        """Interrupts for a count come after so many frames, in the server's trace."""
        _, events, _ = self.traced(self.groups)
        came, counted, late, now = {}, collections.Counter(), collections.Counter(), None
        for _, what, value in events:
            if what == "RX CR" and now != (value >> 16 & 255):
                # Another threshold begins its count anew.
                now = value >> 16 & 255
                came[now] = counted[now] = late[now] = 0
            elif what == "frame in" and now:
                came[now] += 1
            elif what == "RX SR" and now:
                # The driver acknowledges what was raised: for the count (IOC), or the delay after a
                # frame that no other followed.
                counted[now] += value >> 12 & 1
                late[now] += value >> 13 & 1
                expect(
                    came[now] >= counted[now] * now,
                    f"threshold {now}: {counted[now]} interrupts for the count after {came[now]} "
                    f"frames",
                )
        for frames in self.THRESHOLDS:
            print(
                f"      {frames:3} frames: {self.GROUPS} groups, {counted[frames]} interrupts for "
                f"the count, {late[frames]} for the delay"
            )
            expect(came[frames] >= self.GROUPS * frames, f"{came[frames]} frames in the trace")
            # Without a delay nothing else can come; with it a group that is held up within has one
            # for that, and perhaps none for the count.
            wanted = self.GROUPS if frames == 1 else 1
            expect(
                counted[frames] >= wanted,
                f"threshold {frames}: {counted[frames]} interrupts for the count",
            )

    def threshold(self):
        return self.registers()[1] >> 16 & 255

    def watched(self, seconds):
        """The threshold of RX, now and again for so long."""
        seen, until = [self.threshold()], time.monotonic() + seconds
        while time.monotonic() < until:
            if (now := self.threshold()) != seen[-1]:
                seen.append(now)
        return seen

    @timing("DIM moves with the rates that it sees")
    def adaptive(self):
        """`ethtool -C adaptive-rx on`: the kernel's DIM moves the threshold with the load, and
        back."""
        self.coalesce((4, 16), (24, 50))
        self.guest.run("ethtool -C eth0 adaptive-rx on")
        seen = {}
        with subprocess.Popen(
            ["ping", "-q", "-i", "0.002", "-c", "4000", GUEST], stdout=subprocess.DEVNULL
        ) as sparse:
            seen["sparse"] = self.watched(5)
            sparse.kill()
        server = subprocess.Popen(["iperf3", "-s", "-1", "-B", HOST], stdout=subprocess.DEVNULL)
        try:
            time.sleep(0.3)
            self.guest.run(f"iperf3 -c {HOST} -t 6 -R >/dev/null 2>&1 &")
            seen["bulk"] = self.watched(5)
        finally:
            server.kill()
            server.wait()
        self.guest.run("killall -q iperf3; wait; true")
        with subprocess.Popen(
            ["ping", "-q", "-i", "0.002", "-c", "4000", GUEST], stdout=subprocess.DEVNULL
        ) as sparse:
            seen["sparse again"] = self.watched(5)
            sparse.kill()
        for what, thresholds in seen.items():
            print(f"      {what}: {' '.join(map(str, thresholds))}")
        every = [t for s in seen.values() for t in s]
        # 3 = 1 | 2: the driver's own dummy count shines through for a while.
        expect(set(every) <= {1, 3, 4, 16, 64, 255}, f"DIM's profiles: {every}")
        expect(len(set(every)) > 1, "the threshold moved")
        # Where DIM stood at one frame when adaptive-rx came on, the driver has set no delay, and
        # DIM's steps do not bring it back. If DIM then stops at 255, up to 254 frames wait for the
        # next ones, and so would the checks after this one.
        frames, delay = self.registers()[1] >> 16 & 255, self.registers()[1] >> 24
        print(f"      at the end: {frames} frames, delay {delay}")
        self.coalesce((4, 16), (24, 50))
        self.ping_once()
        self.quiet()

    # DIM's thresholds; 255 stands for 256, which the register does not hold.
    PROFILES = (1, 4, 16, 64, 255)
    # Seconds of each load, and what comes: share of the link, frames of 1514 bytes, at random.
    HOLD, LOADS = 3, (5.0, 0.5, 5.0)

    def random_frames(self, interface):
        """Loads one after another; when each began."""
        began, full = [], frame(MAC, size=1514)
        draw = random.Random(1)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
            s.bind((interface, 0))
            for load in self.LOADS:
                a_second = load / 100 / (8 * (1514 + 24) / 1e9)
                began.append(time.monotonic())
                due = began[-1] + draw.expovariate(a_second)
                while due < began[-1] + self.HOLD:
                    if (wait := due - time.monotonic()) > 0:
                        time.sleep(wait)
                    s.send(full)
                    due += draw.expovariate(a_second)
        return began + [time.monotonic()]

    def traced(self, work):
        """Does `work` with a guest on a server of its own, whose wire is the TAP device `traced`.

        Returns its result, the server's trace, and the server's counts. Of the trace it keeps
        frames in and writes of the receive channel's registers, as (seconds, kind, value). """
        directory = self.directory / "traced"
        directory.mkdir(exist_ok=True)
        for name in ("socket", "trace.json"):
            (directory / name).unlink(missing_ok=True)
        tap("traced", "10.0.7.2/24")
        line = [
            self.server.process.args[0],
            "serve",
            "axi-ethernet",
            "--socket",
            directory / "socket",
            "--quiet",
        ]
        line += ["--uplink", "tap:traced", "--trace", directory / "trace.json", "--format", "json"]
        server, guest = subprocess.Popen(line, stdout=subprocess.PIPE, text=True), None
        try:
            expect(until((directory / "socket").exists), "the server did not start")
            guest = Arm(*self.made_of, directory / "socket", directory)
            for module in MODULES:
                guest.run(f"insmod /m/{module}.ko")
            guest.run(
                "for i in $(seq 50); do [ -e /sys/class/net/eth0 ] && break; sleep 0.1; done; ip "
                "link set eth0 up; sleep 1"
            )
            done = work(guest)
            guest.stop()
            server.terminate()
            counts = json.loads(server.communicate(timeout=PATIENCE)[0])
        finally:
            for it in (guest, server):
                if it:
                    it.kill()
        events = []
        with open(directory / "trace.json") as f:
            for line in f:
                at = lambda: float(re.search(r'"ts":([0-9.]+)', line)[1]) / 1e6
                if '"frame in"' in line:
                    events.append((at(), "frame in", None))
                elif '"register write"' in line and (
                    register := next((r for r in self.RECEIVE if r in line), None)
                ):
                    value = int(re.search(r'"value":"(0x[0-9a-f]+)"', line)[1], 16)
                    events.append((at(), self.RECEIVE[register], value))
        (directory / "trace.json").unlink()
        return done, events, counts

    # Where the trace has the receive channel's registers: in BAR 1, behind the MAC.
    RECEIVE = {'"1+0x40030"': "RX CR", '"1+0x40034"': "RX SR"}

    def real_profile(self):
        """Returns (seconds, threshold written) of RX, when each load began, and the counts."""

        def loads(guest):
            guest.run("ethtool -C eth0 adaptive-rx on")
            began = self.random_frames("traced")
            time.sleep(0.3)
            return began

        began, events, counts = self.traced(loads)
        first = next(at for at, what, _ in events if what == "frame in")
        seen = [(at - first, value >> 16 & 255) for at, what, value in events if what == "RX CR"]
        return seen, [b - began[0] for b in began], counts

    def our_profile(self):
        """The same of our own driver, in the lab; and the ledger."""
        high, low, _ = self.LOADS
        line = [
            self.binary,
            "run",
            "axienet-steps",
            "--quiet",
            "--format",
            "json",
            "--set",
            f"traffic.load={high}",
        ]
        line += ["--set", f"traffic.low={low}", "--set", f"traffic.hold={1000 * self.HOLD}"]
        line += ["--set", f"traffic.duration={1000 * self.HOLD * len(self.LOADS)}"]
        result = json.loads(host(" ".join(map(str, line))))
        return [(ms / 1000, int(t)) for ms, t in result["series"]["setting_packets"]], result[
            "ledger"
        ]

    @timing("DIM decides once in 64 interrupts, and a guest without a CPU takes few")
    def profile_over_time(self):
        """DIM's thresholds over time, Linux's driver and ours under the same load: high, low,
        high."""
        (linux, began, counts), (ours, ledger) = self.real_profile(), self.our_profile()
        ends = [began, [self.HOLD * i for i in range(len(self.LOADS) + 1)]]
        changes = []
        for seen in (linux, ours):
            every = [(at, t) for i, (at, t) in enumerate(seen) if i == 0 or seen[i - 1][1] != t]
            expect(
                {t for at, t in every if at > 0.5} <= {*self.PROFILES}, f"DIM's profiles: {every}"
            )
            changes.append(every)

        def share(every, start, end):
            """Of that time, at each threshold."""
            spans = [
                (max(start, at), min(end, after), t)
                for (at, t), (after, _) in zip(every, [*every[1:], (1e9, 0)])
            ]
            all = {t: sum(max(0, b - a) for a, b, u in spans if u == t) for t in self.PROFILES}
            return {t: v / (end - start) for t, v in all.items()}

        where = lambda every, at: [t for begin, t in every if begin <= at or begin == every[0][0]][
            -1
        ]
        for n, load in enumerate(self.LOADS):
            for who, every, end in zip(("Linux", "ours"), changes, ends):
                shares = share(every, end[n], end[n + 1])
                steps = sum(end[n] <= at < end[n + 1] for at, _ in every)
                # A look twice a second.
                series = [
                    where(every, end[n] + (end[n + 1] - end[n]) * (i + 0.5) / (2 * self.HOLD))
                    for i in range(2 * self.HOLD)
                ]
                said = " ".join(f"{t}: {v:.0%}" for t, v in shares.items())
                print(
                    f"      {load:4} % of the link, {who:5}  {' '.join(f'{t:3}' for t in series)}  "
                    f" {said}   {steps} changes"
                )
        # How often is up to the machine; but DIM goes from one profile to the next above or below,
        # and never further.
        for who, every in zip(("Linux", "ours"), changes):
            steps = [
                (self.PROFILES.index(a), self.PROFILES.index(b))
                for (_, a), (at, b) in zip(every, every[1:])
                if at > 0.5
            ]
            expect(
                steps and all(abs(a - b) == 1 for a, b in steps),
                f"{who}: no step, or one that is not DIM's: {every}",
            )
        for who, device in (
            ("Linux", counts["device_counters"]),
            ("ours", {n.removeprefix("device_"): v for n, v in ledger.items()}),
        ):
            print(
                f"      {who:5} {device['rx_packets']} frames, "
                f"{device['rx_interrupts'] / device['rx_packets']:.3f} interrupts a frame"
            )
            expect(device["rx_packets"] > 1000, f"{who}: {device['rx_packets']} frames")

    def checksums(self):
        """TCP of the guest has its checksum made by the device, by application words, and it is
        right on the wire."""
        features = self.guest.run("ethtool -k eth0")
        expect(
            "tx-checksum-ip-generic: on" in features and "rx-checksumming: on" in features, features
        )
        captures = list(self.directory.glob(".capture-*"))
        since = sum(c.stat().st_size for c in captures)
        self.iperf(1)
        if not captures:
            print("      the wire was not looked at: a long run keeps no capture")
            return
        print(
            f"      {tcp_checksums(captures[0], GUEST, self.directory, since)} segments, all right"
        )

    def statistics_equal_counters(self):
        """The driver's counters are the device's, and what the ledger saw on the wire."""

        def both():
            names = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
            out = self.guest.run(
                "cd /sys/class/net/eth0/statistics; cat " + " ".join(names) + "; cd /"
            )
            return dict(zip(names, map(int, out.split()))), self.server.counts()

        s0, c0 = both()
        self.guest.run(f"ping -q -c 20 -i 0.02 -s 700 {HOST}")
        self.iperf(2)
        self.at_rest()
        s1, c1 = both()
        d = lambda of, a, b: b[of] - a[of]
        for stat, counter in (
            ("rx_packets", "device_rx_packets"),
            ("tx_packets", "device_tx_packets"),
            ("tx_packets", "wire_frames"),
            ("rx_bytes", "device_rx_bytes"),
        ):
            a, b = d(stat, s0, s1), d(counter, c0, c1)
            expect(a == b, f"{stat} is {a}, {counter} is {b}")
        lost = sum(d(f"device_{n}", c0, c1) for n in ("rx_filtered", "rx_missed", "rx_dropped"))
        expect(
            d("arrived_frames", c0, c1) - lost == d("rx_packets", s0, s1),
            "every frame arrived, or was dropped by name",
        )

    def beside_ours(self):
        """What a frame costs, beside our own driver's on the same traffic."""
        # As the lab's scenario has it, which is what the driver sets when it is loaded.
        self.coalesce((1, 0), (24, 50))
        cases = [
            Case("sent one at a time, 60 bytes", "send", 60, 1),
            Case("1514 bytes, checksum left to the driver", "send", 1514, 1, True),
            Case("sent in bursts of 32", "send", 60, 32),
            Case("received one at a time, 60 bytes", "receive", 60, 1),
            Case("received in bursts of 16, 1514 bytes", "receive", 1514, 16),
            Case("answered one by one, 98 bytes", "answer", 98, 1),
        ]
        plus = lambda *names: {n: 1 for n in names}
        rows = [
            Row("descriptors sent", plus("device_tx_descriptors")),
            Row("descriptors received into", plus("device_rx_descriptors")),
            Row("doorbells (TAILDESC), transmit", plus("device_tx_doorbells")),
            Row("doorbells, receive", plus("device_rx_doorbells"), None),
            Row("bytes of frames read", plus("device_data_read_bytes")),
            Row("bytes of frames written", plus("device_data_write_bytes")),
            Row("AXI-Lite writes", plus("axi_lite_writes"), None),
            Row("AXI-Lite reads", plus("axi_lite_reads"), None),
            Row("interrupts taken", plus(TAKEN), None),
            Row("interrupts, transmit", plus("device_tx_interrupts"), None),
            Row("interrupts, receive", plus("device_rx_interrupts"), None),
            Row("AXI reads", plus("axi_reads"), None),
            Row("AXI writes", plus("axi_writes"), None),
        ]
        beside(self, "axienet-paced", cases, rows)

    def bill(self):
        """At the end: nothing was lost without a name, and the capture holds the wire."""
        self.guest.stop()
        counts = self.server.stop()
        ledger, device = counts["ledger"], counts["device_counters"]
        expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        expect(ledger["uplink_dropped"] == 0, f"{ledger['uplink_dropped']} frames lost at the TAP")
        expect(
            device["hangs"] == 0 and device["dma_errors"] == 0,
            f"{device['hangs']} hangs, {device['dma_errors']} DMA errors",
        )
        frames = counts["frames"]
        if not LONG:
            captured = packets(self.directory / "wire.pcapng")
            expect(captured == frames, f"{captured} frames in the capture, {frames} in the ledger")
            (self.directory / "wire.pcapng").unlink()
        names = (
            "axi_lite_writes",
            "axi_lite_reads",
            "line_interrupts",
            "messages",
            "axi_reads",
            "axi_writes",
        )
        print("      " + "; ".join(f"{n} {ledger[n] / frames:.3f} a frame" for n in names))

    all = [probe, Rig.ping, Rig.iperf_both_ways, statistics_equal_counters, beside_ours, coalescing]
    all += [
        interrupts_as_set,
        adaptive,
        profile_over_time,
        checksums,
        Rig.jumbo,
        Rig.link_flaps,
        Rig.reload,
        Rig.another_guest,
        bill,
    ]
