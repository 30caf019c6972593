"""Linux's mlx5_core on the served mlx5: its checks, the bytes of a packet, and how it compares with
QEMU's own devices."""

import json
import re
import subprocess
import time

from guest import Guest, Server
from rig import (
    GUEST,
    HOST,
    LONG,
    MAC,
    OTHER,
    TAP_MAC,
    Rig,
    expect,
    frame,
    host,
    numbers,
    send,
    tap,
    until,
)

# What an interrupt adds to the bytes toward the device: five CQs and the EQ are armed at the end of
# a poll, each a write that is a TLP of 32 bytes, and the device's EQE and message have an Ack and
# an UpdateFC of 8 bytes each. How many packets one is for is the machine's.
INTERRUPT = 6 * 32 + 2 * 16
# The bytes of a packet without that, in bursts of 32: the driver's and the model's, on any machine.
# Published are 174.3 and 128.0, with the interrupts of a machine that nobody describes: "on" is 1.1
# % below, and 0.6 to 0.8 % with the 50 to 80 interrupts that 30,000 packets have here.
STEADY = {"off": 173.6, "on": 126.6}

NEEDED = ("pci-hyperv-intf", "mlxfw", "psample", "tls")
PKTGEN = "/proc/net/pktgen"


def pktgen(guest, interface, to, mac, count, burst=32):
    """The kernel's own generator: 64-byte frames; packets a second, and how many were sent."""
    settings = (
        f"count {count}",
        f"burst {burst}",
        "pkt_size 60",
        "delay 0",
        f"dst {to}",
        f"dst_mac {mac}",
    )
    guest.run(
        f"echo rem_device_all >{PKTGEN}/kpktgend_0 && echo add_device {interface} "
        f">{PKTGEN}/kpktgend_0"
    )
    for s in settings:
        guest.run(f"echo {s} >{PKTGEN}/{interface}")
    out = guest.run(f"echo start >{PKTGEN}/pgctrl; tail -3 {PKTGEN}/{interface}")
    # `Result: OK: 166998(c163849+d3148) usec, 50016 (60byte,0frags)`, then `299500pps 143Mb/sec
    # ...`
    found = re.search(r"OK: .* usec, (\d+) .*?(\d+)pps", out, re.S)
    expect(found, f"pktgen on {interface} says: {out}")
    return int(found[2]), int(found[1])


class Mlx5(Rig):
    """mlx5_core."""

    MODULE = "mlx5_core"
    EXPRESS = True
    KNOWN = (
        # The card's vendor specific capability is for its tools; ours has none.
        "Failed to get valid vendor specific ID",
        # Nor precision time measurement.
        "PTM is not supported by PCIe",
        # The driver says so whenever it goes promiscuous.
        "S-tagged traffic will be dropped",
    )

    def probe(self):
        """The driver binds, and the kernel has nothing to complain about but what is known."""
        for m in NEEDED:
            self.guest.run(f"insmod /m/{m}.ko")
        self.guest.run("insmod /m/pktgen.ko")
        super().probe()

    def asked(self):
        """`ethtool -i -k -g -l -c`: what the driver says of the device."""
        run = self.guest.run
        expect(
            "driver: mlx5_core" in (i := run("ethtool -i eth0"))
            and "firmware-version: 16.35.3000" in i,
            i,
        )
        features = run("ethtool -k eth0")
        for on in (
            "rx-checksumming",
            "tx-checksumming",
            "tcp-segmentation-offload",
            "receive-hashing",
            "rx-vlan-filter",
        ):
            expect(f"{on}: on" in features, f"{on}: {features}")
        g = run("ethtool -g eth0")
        expect([l.split() for l in g.splitlines()].count(["RX:", "1024"]) == 1, g)
        cpus = int(run("nproc"))
        channels = run("ethtool -l eth0").splitlines()
        expect(
            [l for l in channels if "Combined" in l][-1].split()[-1] == str(cpus),
            "\n".join(channels),
        )
        expect("rx-usecs:" in (c := run("ethtool -c eth0")), c)

    def counters(self):
        """`ethtool -S` is what the device counted, and what was on the wire."""

        def both():
            self.at_rest()
            # Counters of the device are read every second, by the guest's clock.
            self.guest.run("sleep 1.5")
            return numbers(self.guest), self.server.counts()

        s0, c0 = both()
        self.guest.run(f"ping -q -c 20 -i 0.02 -s 700 {HOST}")
        self.iperf(2)
        self.iperf(2, "-R", "-u", "-b", "30M", "-l", "200")
        send(self.server, [frame(OTHER) for _ in range(7)])
        s1, c1 = both()
        s, c = (lambda n: s1[n] - s0[n]), (lambda n: c1[n] - c0[n])
        pairs = [
            ("tx_packets_phy", "wire_frames"),
            ("tx_packets", "device_packets"),
            ("rx_packets_phy", "arrived_frames"),
            ("rx_packets", "device_rx_packets"),
            ("tx_tso_packets", "device_lso"),
            ("tx_mpwqe_blks", "device_mpwqes"),
            ("tx_mpwqe_pkts", "device_mpwqe_packets"),
        ]
        for stat, counter in pairs:
            expect(
                s(stat) == c(counter), f"ethtool's {stat} is {s(stat)}, {counter} is {c(counter)}"
            )
        expect(
            s("tx_bytes_phy") == c("wire_bytes") + 4 * c("wire_frames"),
            "tx_bytes_phy are the wire's, with FCS",
        )
        expect(
            s("tx_packets") > 20 and s("tx_tso_packets") > 0 and s("rx_packets") > 20,
            "there was traffic",
        )
        expect(
            c("arrived_frames") - c("device_rx_packets") >= 7,
            "frames for others are steered to nobody",
        )

    def test(self):
        """`ethtool -t offline`."""
        out = self.guest.run("ethtool -t eth0 offline; true")
        expect("result is PASS" in out, out)
        self.carrier("1")
        self.quiet()

    def changes(self):
        """Rings, channels, moderation and offloads change, and traffic goes on."""
        for change in (
            "-G eth0 rx 512 tx 2048",
            "-G eth0 rx 1024 tx 1024",
            "-C eth0 adaptive-rx off rx-usecs 50",
            "-C eth0 adaptive-rx on",
            "-K eth0 tso off gso off tx off rx off",
            "-K eth0 tso on gso on tx on rx on",
            "--set-priv-flags eth0 skb_tx_mpwqe off",
            "--set-priv-flags eth0 skb_tx_mpwqe on",
        ):
            self.guest.run(f"ethtool {change}")
            self.carrier("1")
            self.ping_once()
        cpus = int(self.guest.run("nproc"))
        for n in (1, cpus) if cpus > 1 else ():
            self.guest.run(f"ethtool -L eth0 combined {n}")
            self.ping_once()
        expect("1" in self.guest.run("cat /sys/class/net/eth0/carrier"), "the carrier")
        self.quiet()

    def multi_packet(self):
        """pktgen, bursts of 32: every packet in a multi-packet WQE, a session or two a burst; none
        with the flag off."""

        def blocks_and_packets():
            before = numbers(self.guest)
            _, sent = pktgen(self.guest, "eth0", HOST, TAP_MAC, 20000)
            after = numbers(self.guest)
            return (
                sent,
                after["tx_mpwqe_blks"] - before["tx_mpwqe_blks"],
                after["tx_mpwqe_pkts"] - before["tx_mpwqe_pkts"],
            )

        sent, blocks, packets = blocks_and_packets()
        print(
            f"      {sent} packets: {blocks} sessions with {packets} of them, "
            f"{packets / max(blocks, 1):.1f} each"
        )
        expect(
            packets >= sent and packets - sent < 10,
            "every packet of the generator came in a session",
        )
        expect(sent / 32 <= blocks <= 2.1 * sent / 32, "a session or two for a burst")
        self.guest.run("ethtool --set-priv-flags eth0 skb_tx_mpwqe off")
        self.carrier("1")
        sent, blocks, packets = blocks_and_packets()
        expect(
            sent >= 20000 and (blocks, packets) == (0, 0), f"{blocks} sessions with the flag off"
        )
        self.guest.run("ethtool --set-priv-flags eth0 skb_tx_mpwqe on")
        self.carrier("1")
        self.quiet()

    def unbind(self):
        """Unbound from the device under traffic, and bound again."""
        flood = subprocess.Popen(
            ["ping", "-q", "-f", "-s", "1000", GUEST], stdout=subprocess.DEVNULL
        )
        try:
            for _ in range(5 if LONG else 2):
                time.sleep(0.5)
                self.guest.run(
                    "echo 0000:01:00.0 >/sys/bus/pci/drivers/mlx5_core/unbind && [ ! -e "
                    "/sys/class/net/eth0 ]"
                )
                self.guest.run(
                    "echo 0000:01:00.0 >/sys/bus/pci/drivers/mlx5_core/bind && [ -e "
                    "/sys/class/net/eth0 ]"
                )
                self.up()
        finally:
            flood.kill()
            flood.wait()
        self.ping_once()
        self.quiet()

    def tags_by_device(self):
        s = numbers(self.guest)
        return s["tx_added_vlan_packets"], s["rx_removed_vlan_packets"]

    def no_traps(self):
        """Doorbells leave no CPU: what traps is commands, and packets are seen by looking at the
        pages."""
        before = self.server.counts()
        _, sent = pktgen(self.guest, "eth0", HOST, TAP_MAC, 20000)
        after = self.server.counts()
        d = lambda n: after[n] - before[n]
        print(
            f"      {sent} packets: {d('mmio_writes')} rings seen, {d('trapped_writes')} writes "
            f"trapped"
        )
        expect(d("wire_frames") >= sent and d("mmio_writes") > 10, "rings are seen")
        # The driver reads its counters every second: a command each.
        expect(d("trapped_writes") <= d("device_commands"), f"{d('trapped_writes')} writes trapped")
        self.quiet()

    def bill(self):
        """At the end: nothing was lost without a name, no command was unknown, and the capture
        holds the wire."""
        self.guest.stop()
        counts = self.server.stop()
        ledger, device = counts["ledger"], counts["device_counters"]
        expect(ledger["dma_faults"] == 0, f"{ledger['dma_faults']} DMA faults")
        expect(ledger["uplink_dropped"] == 0, f"{ledger['uplink_dropped']} frames lost at the TAP")
        for name in (
            "bad_doorbells",
            "errors",
            "lost_entries",
            "unknown_commands",
            "undelivered_commands",
        ):
            expect(device[name] == 0, f"{name}: {device[name]}")
        self.budget(counts)
        frames = counts["frames"]
        print(f"      {frames} frames;", end="")
        for name in ("mmio_writes", "messages", "pcie_down_tlp_bytes", "pcie_up_tlp_bytes"):
            print(
                f" {name} {ledger[name] / frames:.3f} a frame",
                end=";" if name != "pcie_up_tlp_bytes" else "\n",
            )

    all = [
        probe,
        Rig.ping,
        asked,
        Rig.iperf_both_ways,
        counters,
        test,
        changes,
        multi_packet,
        no_traps,
        Rig.vlan,
        Rig.jumbo,
    ]
    all += [Rig.promiscuous, Rig.link_flaps, unbind, Rig.reload, Rig.another_guest, bill]


def start(binary, cache, work, initrd, name, more=(), extra=()):
    """A server of its own with a guest, mlx5 up on it."""
    directory = work / name
    directory.mkdir(exist_ok=True)
    (directory / "socket").unlink(missing_ok=True)
    server = Server(binary, "mlx5", "tap:tap0", directory, "--mac", MAC, *more)
    try:
        guest = Guest(cache, initrd, server.socket, directory, express=True, extra=extra)
    except BaseException:
        server.kill()
        raise
    return server, guest


def inbound_bytes(binary, cache, work, initrd):
    """What crosses toward the device for a packet of the real driver, with skb_tx_mpwqe on and
    off."""
    server, guest = start(
        binary, cache, work, initrd, "inbound", ["--bus", "pcie2x8", "--trap-doorbells"]
    )
    try:
        for m in (*NEEDED, "mlx5_core", "pktgen"):
            guest.run(f"insmod /m/{m}.ko")
        guest.run("ip link set eth0 up; sleep 2")
        whole, steady = {}, {}
        for flag, published, wqes in (("off", 174.3, 64), ("on", 128.0, 64 * 64 / (6 * 32))):
            guest.run(f"ethtool --set-priv-flags eth0 skb_tx_mpwqe {flag}; sleep 1")
            before = server.counts()
            _, sent = pktgen(guest, "eth0", HOST, TAP_MAC, 100_000 if LONG else 30_000)
            after = server.counts()
            d = lambda n: after[n] - before[n]
            n = d("wire_frames")
            expect(n >= sent and n < sent + 50, f"{sent} packets, {n} frames on the wire")
            whole[flag] = (d("pcie_down_tlp_bytes") + d("pcie_down_dllp_bytes")) / n
            steady[flag] = whole[flag] - INTERRUPT * d("messages") / n
            off = lambda of: f"{of:.1f} B ({of / published - 1:+.2%})"
            print(
                f"      skb_tx_mpwqe {flag}, a packet toward the device: {off(whole[flag])}, "
                f"published {published}; "
                f"without its {d('messages')} interrupts {off(steady[flag])}\n"
                f"        {d('pcie_down_tlp_bytes') / n:.1f} B of TLPs, "
                f"{d('pcie_down_dllp_bytes') / n:.1f} B of DLLPs; "
                f"{d('device_fetched_bytes') / n:.2f} B of WQEs fetched in "
                f"{d('device_fetches') / n:.3f} reads; "
                f"{d('device_doorbells') / n:.4f} doorbells, {d('mmio_writes') / n:.4f} writes in "
                f"all"
            )
            fetched = d("device_fetched_bytes") / n
            expect(
                abs(fetched / wqes - 1) < 0.002,
                f"skb_tx_mpwqe {flag}: {fetched} B of WQEs a packet, not {wqes}",
            )
            at = steady[flag] / STEADY[flag] - 1
            expect(
                abs(at) <= 0.01,
                f"skb_tx_mpwqe {flag}: {steady[flag]:.2f} B without interrupts is {at:+.2%} of "
                f"{STEADY[flag]}",
            )
        at = steady["off"] / 174.3 - 1
        expect(
            abs(at) <= 0.01,
            f"skb_tx_mpwqe off: {steady['off']:.2f} B is {at:+.2%} of what was published",
        )
        saved = steady["off"] - steady["on"]
        print(
            f"      saved: {saved:.1f} B a packet (published 46.2); fetch: up to 1024 B a read, no "
            f"WQE read twice; "
            "DLLPs: an Ack and an UpdateFC for each request; completions of up to 256 B, Gen2 "
            "framing; bursts of 32, one queue"
        )
    finally:
        guest.kill()
        server.kill()


def recovery(binary, cache, work, initrd):
    """WQEs that the device refuses: mlx5_core takes the queue through reset each time, and goes
    on."""
    server, guest = start(binary, cache, work, initrd, "recovery", ["--fault", "wqe@120"])
    try:
        for m in (*NEEDED, "mlx5_core"):
            guest.run(f"insmod /m/{m}.ko")
        guest.run(
            f"ip link set eth0 up; ip addr add {GUEST}/24 dev eth0; ip neigh replace {HOST} lladdr "
            f"{TAP_MAC} dev eth0; sleep 2"
        )
        for flag in ("on", "off") if LONG else ("on",):
            guest.run(
                f"ethtool --set-priv-flags eth0 skb_tx_mpwqe {flag}; sleep 1; dmesg -c >/dev/null"
            )
            s0, c0 = numbers(guest), server.counts()
            now = lambda name: numbers(guest)[name] - s0[name]
            failed = lambda: server.counts()["device_errors"] - c0["device_errors"]
            for n in range(1, 17 if LONG else 5):
                # A WQE each, until one fails. What is sent after it is lost, until the queue has
                # been recovered.
                for _ in range(8):
                    if failed() >= n:
                        break
                    guest.run(f"ping -q -c 40 -i 0.002 -W 1 {HOST}", check=False)
                expect(failed() == n, f"{failed()} WQEs failed, not {n}")
                expect(
                    until(lambda: now("tx_recover") == n), f"{now('tx_recover')} recoveries of {n}"
                )
                # An error within half a second of the last recovery is left alone by devlink, and
                # the queue stands until the watchdog comes after 15 s.
                guest.run("sleep 1")
            discarded = server.counts()["device_discarded"] - c0["device_discarded"]
            print(
                f"      skb_tx_mpwqe {flag}: {failed()} WQEs failed, {now('tx_recover')} "
                f"recoveries, {now('tx_cqe_err')} error "
                f"CQEs, {discarded} packets lost"
            )
            expect(now("tx_recover") == failed() <= now("tx_cqe_err"), "each is recovered from")
            guest.run(f"for i in 1 2 3 4 5; do ping -q -c 1 -W 1 {HOST} && break; done")
            said = guest.run("dmesg -r")
            expect("Error cqe on cqn" in said, "the driver says what it was told")
            found = [
                l
                for l in said.splitlines()
                if any(w in l for w in ("BUG", "WARNING", "Call Trace", "TX timeout", "failed"))
            ]
            expect(not found, "; ".join(found))
        expect(server.counts()["dma_faults"] == 0, "no DMA fault")
    finally:
        guest.kill()
        server.kill()


def tcp(guest, net, seconds, flag):
    """Mbit/s at the receiver, guest to host or with -R the other way."""
    listening = subprocess.Popen(
        ["iperf3", "-s", "-1", "-B", f"{net}.2"], stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.3)
        out = guest.run(f"iperf3 -c {net}.2 -t {seconds} -f m {flag}")
    finally:
        listening.kill()
        listening.wait()
    line = [l for l in out.splitlines() if "receiver" in l][-1].split()
    return float(line[line.index("Mbits/sec") - 1])


def side_by_side(binary, cache, work, initrd):
    """Every frame of mlx5, e1000e and virtio-net in one guest arrives; rates are printed."""
    extra, cards = (
        [],
        {"mlx5": (MAC, "tap0", "10.0.0"), "e1000e": ("52:54:00:db:01:01", "e1000e", "10.0.1")},
    )
    cards["virtio"] = ("52:54:00:db:02:01", "virtio", "10.0.2")
    for name, model in (("e1000e", "e1000e"), ("virtio", "virtio-net-pci,disable-legacy=on")):
        mac, end, net = cards[name]
        tap(end, f"{net}.2/24", "vnet_hdr")
        extra += [
            "-netdev",
            f"tap,id={end},ifname={end},script=no,downscript=no,vhost=off",
            "-device",
            f"{model},netdev={end},mac={mac}",
        ]
    server, guest = start(binary, cache, work, initrd, "side", extra=extra)
    try:
        for m in (
            *NEEDED,
            "mlx5_core",
            "e1000e",
            "failover",
            "net_failover",
            "virtio_net",
            "pktgen",
        ):
            guest.run(f"insmod /m/{m}.ko")
        links = [l.split() for l in guest.run("ip -c=never -br link").splitlines()]
        interfaces = {
            name: next(l[0] for l in links if mac in l) for name, (mac, _, _) in cards.items()
        }
        for name, (_, _, net) in cards.items():
            guest.run(
                f"ip link set {interfaces[name]} up; ip addr add {net}.1/24 dev {interfaces[name]}"
            )
        time.sleep(3)
        best = {name: [0, 0, 0] for name in cards}
        seconds = 10 if LONG else 3
        for _ in range(5 if LONG else 1):
            for name, (_, end, net) in cards.items():
                mac = host(f"ip -o link show {end}").split("link/ether ")[1].split()[0]
                for way, flag in enumerate(("", "-R")):
                    best[name][way] = max(best[name][way], tcp(guest, net, seconds, flag))
                count = 100_000 if LONG else 50_000
                came = lambda end=end: json.loads(host(f"ip -j -s link show {end}"))[0]["stats64"][
                    "rx"
                ]["packets"]
                before = came()
                rate, sent = pktgen(guest, interfaces[name], f"{net}.2", mac, count)
                # On the host's end is what was sent, to the last frame: TCP's last words may come
                # in between.
                expect(
                    until(lambda: came() - before >= sent) and came() - before < sent + 10,
                    f"{name}: {came() - before} of {sent} came",
                )
                best[name][2] = max(best[name][2], rate)
        # For information: rates are the machine's.
        what = ("TCP out, Mbit/s", "TCP in, Mbit/s", "pktgen 64 B, packets/s")
        for n, title in enumerate(what):
            ours, e1000e, virtio = (best[k][n] for k in ("mlx5", "e1000e", "virtio"))
            print(
                f"      {title:24}mlx5 {ours:9.0f}   e1000e {e1000e:9.0f}   virtio-net "
                f"{virtio:9.0f}"
            )
    finally:
        guest.kill()
        server.kill()
