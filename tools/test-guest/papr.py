"""Linux's ibmvnic and ibmveth behind our hypervisor: a ppc64le guest whose calls the plug-in hands to the server."""

import json
import pathlib
import subprocess
import time

from guest import Guest, Server, initramfs
from rig import GUEST, HOST, LONG, MAC, OTHER, Rig, expect, host, packets, tap

PLUGIN = pathlib.Path("target/debug/libdoorbell_plugin.so").absolute()
# ibmvnic is built from Debian's kernel source (foreign.sh); ibmveth is Debian's.
MODULES = ("ibmveth", "ibmvnic", "failover", "net_failover", "virtio_net", "llc", "stp", "bridge")


class CallServer(Server):
    """A server that is reached by hypervisor calls."""

    SOCKET = "--plugin-socket"


class Power(Guest):
    """QEMU's `pseries` machine with the plug-in."""

    def __init__(self, cache, initrd, socket, directory, device, unit, cpus=1, mac=MAC, extra=()):
        # Without KVM the mitigations for speculation cannot be had, and QEMU says so. x-vof: no firmware to wait for.
        machine = "pseries,x-vof=on,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off,memory-backend=ram"
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
        # Both drivers go on polling after they have rescheduled themselves, and then reach the budget; the kernel says so once.
        "Budget exhausted after napi rescheduled",
    )
    DEVICE, UNIT = None, 0

    @staticmethod
    def parts(cache, initrd):
        tool = pathlib.Path(__file__).parent / "foreign.sh"
        cache = pathlib.Path(subprocess.run([tool, "ppc64el"], check=True, capture_output=True, text=True).stdout.strip())
        initrd = initrd.with_name("initrd-ppc64el")
        initramfs(cache, MODULES, initrd, "powerpc64le-linux-gnu", "lib64/ld64.so.2")
        return cache, initrd

    def machine(self, cache, initrd, cpus):
        self.made_of = cache, initrd
        return Power(cache, initrd, self.server.socket, self.directory, self.DEVICE, self.UNIT, cpus)

    def on_the_wire(self):
        """TCP checksums of what the guest sent, in the capture as far as it has come."""
        captures = list(self.directory.glob(".capture-*"))
        if not captures:
            return
        part = self.directory / "part.pcapng"
        with open(captures[0], "rb") as f:
            part.write_bytes(f.read(20 << 20))
        line = ["tshark", "-r", part, "-o", "tcp.check_checksum:TRUE", "-Y", f"ip.src == {GUEST} && tcp.len > 0"]
        line += ["-T", "fields", "-e", "tcp.checksum.status"]
        status = subprocess.run(line, capture_output=True, text=True).stdout.split()
        part.unlink()
        expect(len(status) > 100 and set(status) == {"1"}, f"{len(status)} segments, of which {status.count('1')} right")
        print(f"      {len(status)} segments, all right")

    def serve(self, name, *more, device=None):
        """A server of its own, so that this one's ledger goes on: its directory and process."""
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        (directory / "socket").unlink(missing_ok=True)
        line = [self.server.process.args[0], "serve", device or self.DEVICE, "--plugin-socket", directory / "socket"]
        server = subprocess.Popen([*line, "--quiet", "--format", "json", *more], stdout=subprocess.PIPE, text=True)
        until = time.monotonic() + 10
        while not (directory / "socket").exists() and time.monotonic() < until:
            time.sleep(0.02)
        return directory, server

    def server_dies(self):
        """Without a server the guest's calls are answered H_CLOSED, and it lives on; a new server has a new guest."""
        guest = None
        directory, server = self.serve("dies")
        try:
            guest = Power(*self.made_of, directory / "socket", directory, self.DEVICE, self.UNIT)
            guest.run(f"insmod /m/{self.MODULE}.ko; ip link set eth0 up; sleep 1; cat /sys/class/net/eth0/carrier")
            server.kill()
            server.wait()
            guest.run(f"ping -c 2 -i 0.1 -W 1 {HOST}; ip link set eth0 down; sleep 1; true", 120)
            expect("alive" in guest.run("echo alive"), "the guest lives on")
            expect("H_CLOSED" in guest.errors.read_text(), "the plug-in says so")
            guest.stop()
        finally:
            for it in (guest, server):
                if it:
                    it.kill()

    def ping_once(self):
        self.guest.run(f"for i in 1 2 3 4 5; do ping -q -c 1 -W 1 {HOST} && break; done")

    def bill(self):
        """At the end: nothing was lost without a name, and the capture holds the wire."""
        self.guest.stop()
        counts = self.server.stop()
        ledger, frames = counts["ledger"], max(1, counts["frames"])
        expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        expect(ledger["uplink_dropped"] == 0, f"{ledger['uplink_dropped']} frames lost at the TAP")
        if not LONG:
            captured = packets(self.directory / "wire.pcapng")
            expect(captured == counts["frames"], f"{captured} frames in the capture, {counts['frames']} in the ledger")
            (self.directory / "wire.pcapng").unlink()
        calls = [n for n in ledger if n.startswith("hcall") and ledger[n] > 0]
        for name in [*calls, "tce_hcalls", "tce_puts", "messages"]:
            print(f"      {name} {ledger[name] / frames:.3f} a frame")


def numbers(guest):
    """`ethtool -S`."""
    out = guest.run("ethtool -S eth0", 30)
    return {k.strip(): int(v) for k, v in (l.split(":") for l in out.splitlines() if ":" in l and l.split(":")[1].strip())}


def total(numbers, kind):
    """The sum of all queues' counters of that name."""
    return sum(v for k, v in numbers.items() if k.startswith("tx") and k.endswith(kind))


class Ibmvnic(Papr):
    """ibmvnic."""

    MODULE, DEVICE, UNIT = "ibmvnic", "vnic", 0x30000003

    def settled(self):
        """Link up, after whatever reset the driver does by itself."""
        self.carrier("1", 30)
        self.up()
        self.ping_once()

    def direct_and_batched(self):
        """Direct and batched packets of `ethtool -S` are the ledger's calls and the device's frames, all queues together."""
        n0, c0 = numbers(self.guest), self.server.counts()
        # One at a time, nothing to share a call with: the direct path.
        self.guest.run(f"ping -q -c 300 -i 0.002 {HOST}")
        n1, c1 = numbers(self.guest), self.server.counts()
        self.iperf(2)
        time.sleep(0.5)
        n2, c2 = numbers(self.guest), self.server.counts()
        for what, (na, ca), (nb, cb) in (("ping", (n0, c0), (n1, c1)), ("iperf", (n1, c1), (n2, c2))):
            d = lambda name: cb.get(name, 0) - ca.get(name, 0)
            direct = total(nb, "_direct_packets") - total(na, "_direct_packets")
            batched = total(nb, "_batched_packets") - total(na, "_batched_packets")
            expect(direct == d("hcall_send_sub_crq"), f"{what}: {direct} direct, {d('hcall_send_sub_crq')} calls")
            expect(direct + batched == d("device_tx_taken"), f"{what}: {direct} + {batched}, {d('device_tx_taken')} frames")
            calls = d("device_indirect_calls") - d("device_rx_add_calls")
            print(f"      {what}: {direct} packets direct, {batched} in {calls} arrays")
            if what == "ping":
                expect(direct >= 290, "a request-response load goes direct")
            else:
                expect(0 < calls <= batched, f"{calls} arrays for {batched} packets")

    def offloads(self):
        """Large sends and checksums: descriptors of both, and right on the wire."""
        before = self.server.counts()
        self.iperf(2)
        after = self.server.counts()
        d = lambda name: after.get(name, 0) - before.get(name, 0)
        print(f"      {d('device_large_sends')} large sends, {d('device_tx_checksums')} checksums, {d('wire_frames')} frames")
        expect(d("device_large_sends") > 0, "large sends")
        expect(d("device_tx_checksums") > 0 or d("device_large_sends") > 0, "checksums")
        self.on_the_wire()

    def queues(self):
        """Channels: fewer and more of them."""
        shown = self.guest.run("ethtool -l eth0")
        for n in (1, 2, 4):
            self.guest.run(f"ethtool -L eth0 rx {n} tx {n}", 60)
            self.settled()
        self.warnings()
        expect("RX" in shown, shown)

    def failover(self):
        """The client asks for a failover under load; the other server takes over, and the load goes on."""
        before = self.server.counts()
        for _ in range(3):
            self.guest.run(f"ping -q -i 0.01 -c 400 {HOST} >/tmp/ping & sleep 1; echo 1 >/sys/devices/vio/{self.UNIT:x}/failover; wait", 60)
            self.settled()
        after = self.server.counts()
        done = after["device_client_failovers"] - before["device_client_failovers"]
        print(f"      {done} failovers; {self.guest.run('grep loss /tmp/ping').strip()}")
        expect(done == 3, f"{done} failovers")
        self.guest.run(f"ping -q -c 5 -i 0.05 -W 2 {HOST}")
        # It says much about a failover, at all levels.
        self.warnings()

    def several_adapters(self):
        """Two vNICs and a logical LAN in one guest of two CPUs, each with a server and a wire of its own, all busy at once."""
        kinds = [("vnic", 0x30000003), ("vnic", 0x30001003), ("veth", 0x30002002)]
        guest, servers, more = None, [], []
        try:
            for n, (kind, unit) in enumerate(kinds):
                tap(f"wire{n}", f"10.0.{4 + n}.2/24")
                servers.append(self.serve(f"several-{n}", "--unit", hex(unit), "--uplink", f"tap:wire{n}", device=kind))
                if n:
                    more += ["-plugin", f"file={PLUGIN},socket={servers[n][0] / 'socket'}"]
                    more += ["-device", f"doorbell-{kind},reg={unit:#x},mac={MAC[:-1]}{n + 1}"]
            here = servers[0][0]
            guest = Power(*self.made_of, here / "socket", here, *kinds[0], cpus=2, extra=more)
            guest.run("insmod /m/ibmvnic.ko && insmod /m/ibmveth.ko && cat /sys/class/net/eth2/address")
            for n in range(3):
                guest.run(f"ip link set eth{n} up && ip addr add 10.0.{4 + n}.1/24 dev eth{n}")
                guest.run(f"for i in $(seq 20); do ping -q -c 1 -W 1 10.0.{4 + n}.2 && break; done", 60)
            busy = [f"ping -q -c 100 -i 0.02 -s 1400 10.0.{4 + n}.2 >/tmp/ping{n} &" for n in range(3)]
            guest.run(" ".join(busy) + " wait", 60)
            lost = guest.run("cat /tmp/ping*")
            expect(lost.count(" 0% packet loss") == 3, lost)
            guest.stop()
            for n, (_, server) in enumerate(servers):
                server.terminate()
                ledger = json.loads(server.communicate(timeout=10)[0])["ledger"]
                sends = ledger["hcall_send" if kinds[n][0] == "veth" else "hcall_send_sub_crq"]
                expect(sends >= 100 and ledger["dma_faults"] == 0, f"{kinds[n]}: {sends} sends, {ledger['dma_faults']} faults")
                print(f"      {kinds[n][0]} {kinds[n][1]:#x}: {sends} sends, {ledger['posted']} of them posted, {ledger['messages']} interrupts")
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
        self.guest.run("ip link set eth0 mtu 9000", 60)
        self.carrier("1", 30)
        self.up(mtu=9000)
        self.guest.run(f"ping -q -c 5 -i 0.05 -W 2 -M do -s 8900 {HOST}")
        self.iperf(2)
        self.guest.run("ip link set eth0 mtu 1500", 60)
        self.settled()
        self.warnings()

    all = [Rig.probe, Rig.ping, Rig.iperf_both_ways, direct_and_batched, offloads, queues, link_flaps, jumbo, failover]
    all += [Rig.reload, several_adapters, Papr.server_dies, Rig.another_guest, Papr.bill]


class Ibmveth(Papr):
    """ibmveth."""

    MODULE, DEVICE, UNIT = "ibmveth", "veth", 0x30000002

    def two_guests(self):
        """Two guests on one hypervisor: frames of one arrive in the other, large ones whole."""
        guests = []
        directory, server = self.serve("two", "--partitions", "2")
        try:
            for n, mac in ((1, MAC), (3, OTHER)):
                here = directory / str(n)
                here.mkdir(exist_ok=True)
                guest = Power(*self.made_of, directory / "socket", here, self.DEVICE, self.UNIT, mac=mac)
                guests.append(guest)
                guest.run(f"insmod /m/{self.MODULE}.ko && ip link set eth0 up && ip addr add 10.0.0.{n}/24 dev eth0")
            a, b = guests
            a.run("for i in 1 2 3 4 5; do ping -q -c 1 -W 1 10.0.0.3 && break; done")
            a.run("ping -q -c 20 -i 0.02 -W 2 -s 1400 10.0.0.3")
            a.run("ethtool -K eth0 tso on")
            b.run("iperf3 -s -D -1")
            out = a.run("sleep 0.5; iperf3 -c 10.0.0.3 -t 3 -f m", 60)
            for g in guests:
                g.stop()
            server.terminate()
            counts = json.loads(server.communicate(timeout=10)[0])
            device, ledger = counts["device_counters"], counts["ledger"]
            rate = [l for l in out.splitlines() if "receiver" in l][-1].split("Mbits")[0].split()[-1]
            print(f"      {rate} Mbit/s between them; {ledger['hcall_send']} sends, {ledger['wire_frames']} frames out of the switch")
            expect(device["rx_large"] > 0 and device["rx_large"] == device["tx_large"], "large sends arrive whole")
            expect(counts["clients"] == 2 and ledger["hcall_send"] > 100, f"{counts['clients']} guests")
            expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        finally:
            for it in (*guests, server):
                it.kill()

    def offloads(self):
        """`ethtool -k` with all of them, large send on and off, and what is on the wire is right."""
        shown = self.guest.run("ethtool -k eth0")
        for wanted in ("tx-checksum-ipv4: on", "tx-checksum-ipv6: on", "rx-checksumming: on", "scatter-gather: on"):
            expect(wanted in shown, shown)
        sent = {}
        for large in ("on", "off"):
            self.guest.run(f"ethtool -K eth0 tso {large}", 60)
            self.up()
            before = self.server.counts()
            rate = self.iperf(2)
            after = self.server.counts()
            d = lambda name: after.get(name, 0) - before.get(name, 0)
            sent[large] = d("wire_frames") / max(1, d("hcall_send"))
            print(f"      large send {large}: {rate:.0f} Mbit/s, {sent[large]:.1f} frames of the wire a call")
        expect(sent["on"] > 2 and sent["off"] <= 1.01, f"{sent}")
        self.on_the_wire()
        self.guest.run("ethtool -K eth0 tso on")
        self.warnings()

    def trunk(self):
        """A guest whose adapter is the trunk bridges the LAN to a wire of its own; another guest reaches the host through it."""
        tap("outside", "10.0.1.2/24")
        guests = []
        directory, server = self.serve("trunk", "--partitions", "2", "--trunk")
        try:
            for n, mac in ((1, MAC), (3, OTHER)):
                here = directory / str(n)
                here.mkdir(exist_ok=True)
                outside = "-netdev tap,id=out,ifname=outside,script=no,downscript=no -device virtio-net-pci,netdev=out,mac=52:54:00:db:00:77"
                more = outside.split() if n == 1 else []
                guest = Power(*self.made_of, directory / "socket", here, self.DEVICE, self.UNIT, mac=mac, extra=more)
                guests.append(guest)
                guest.run(f"insmod /m/{self.MODULE}.ko && ip link set eth0 up")
            trunk, inside = guests
            trunk.run("for m in failover net_failover virtio_net llc stp bridge; do insmod /m/$m.ko; done")
            trunk.run("ip link add br0 type bridge && ip link set br0 up && for i in eth0 eth1; do ip link set $i up master br0; done")
            inside.run("ip addr add 10.0.1.3/24 dev eth0")
            inside.run("for i in 1 2 3 4 5 6 7 8 9 10; do ping -q -c 1 -W 1 10.0.1.2 && break; sleep 1; done", 60)
            inside.run("ping -q -c 20 -i 0.05 -W 2 -s 1400 10.0.1.2")
            for g in guests:
                g.stop()
            server.terminate()
            counts = json.loads(server.communicate(timeout=10)[0])
            expect(counts["ledger"]["dma_faults"] == 0, "DMA faults")
            print(f"      {counts['ledger']['hcall_send']} sends, {counts['device_counters']['rx_packets']} received")
        finally:
            for it in (*guests, server):
                it.kill()

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
            out = self.guest.run("cd /sys/class/net/eth0/statistics; cat " + " ".join(names) + "; cd /")
            return dict(zip(names, map(int, out.split()))), self.server.counts()

        s0, c0 = both()
        self.guest.run(f"ping -q -c 50 -i 0.01 -s 700 {HOST}")
        time.sleep(0.3)
        s1, c1 = both()
        sent, taken = s1["tx_packets"] - s0["tx_packets"], s1["rx_packets"] - s0["rx_packets"]
        expect(sent == c1["hcall_send"] - c0["hcall_send"], f"{sent} packets, {c1['hcall_send'] - c0['hcall_send']} calls")
        expect(taken == c1["arrived_frames"] - c0["arrived_frames"], f"{taken} packets, {c1['arrived_frames'] - c0['arrived_frames']} frames")

    all = [Rig.probe, Rig.ping, Rig.iperf_both_ways, statistics_equal_counters, offloads, two_guests, trunk, link_flaps, Rig.jumbo]
    all += [Rig.reload, Papr.server_dies, Rig.another_guest, Papr.bill]
