"""The real driver's counts beside ours on the same traffic: frames at a pace, sent, received,
answered one by one.

The guest's driver gets them from pktgen and from the host; ours in the lab (`doorbell run
...-paced`). What each frame costs is a difference of the ledger on one side, and the lab's ledger
on the other, under the same names. """

import collections
import json
import pathlib
import socket
import struct
import subprocess
import time

from mlx5 import PKTGEN
from rig import GUEST, MAC, TAP_MAC, expect, frame, until

# What it is, which way, bytes without FCS, frames of a burst, whether checksums are left to the
# driver.
Case = collections.namedtuple("Case", "name way size burst checksum", defaults=(False,))
# Bursts of a case, and from one to the next.
BURSTS, EVERY = 200, 0.004
# Frames that may be in the guest's memory before its driver has read them: less than half of any
# pool, and a poll takes no more.
UNREAD = 16

# A row: its name, which counts are added up, and how far they may be apart: 0 where both drivers do
# the same, some where one only begins at another place (a pool that is filled up at a mark), and
# None where it hangs on when an interrupt is taken.
Row = collections.namedtuple("Row", "name counts slack", defaults=(0,))
# Interrupts that the driver took. The guest's kernel counts the real one's.
TAKEN = "taken"


def send_from_guest(guest, case):
    run, device = guest.run, f"{PKTGEN}/eth0"
    run(f"echo rem_device_all >{PKTGEN}/kpktgend_0 && echo add_device eth0 >{PKTGEN}/kpktgend_0")
    settings = [
        f"count {BURSTS * case.burst}",
        f"burst {case.burst}",
        f"pkt_size {case.size}",
        f"delay {EVERY * 1e9:.0f}",
    ]
    # An address that nobody has, so that nobody says so.
    settings += [
        "dst 10.9.9.9",
        f"dst_mac {TAP_MAC}",
        f"flag {'' if case.checksum else '!'}UDPCSUM",
    ]
    for s in settings:
        run(f"echo '{s}' >{device}")
    out = run(
        f"echo start >{PKTGEN}/pgctrl; grep pkts-sofar {device}; echo rem_device_all "
        f">{PKTGEN}/kpktgend_0"
    )
    # A queue that was full within a burst makes a burst more.
    return int(out.split("pkts-sofar:")[1].split()[0])


def send_from_host(rig, case):
    """Sends the bursts of a case, and waits for the guest, so that no machine loses a frame.

    A burst goes when the last is in the guest's memory and no more than `UNREAD` frames are unread.
    """
    taken = lambda: int(rig.guest.run("cat /sys/class/net/eth0/statistics/rx_packets"))
    first, driver = rig.server.counts()["device_rx_packets"], taken()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind(("tap0", 0))
        one = frame(MAC, size=case.size)
        for n in range(1, BURSTS + 1):
            for _ in range(case.burst):
                s.send(one)
            time.sleep(EVERY)
            came = lambda: rig.server.counts()["device_rx_packets"] - first
            expect(
                until(lambda: came() >= n * case.burst),
                f"{case.name}: {came()} of {n * case.burst} came",
            )
            if n * case.burst % UNREAD < case.burst:
                expect(
                    until(lambda: taken() - driver >= n * case.burst),
                    f"{case.name}: {taken() - driver} of {n * case.burst} read",
                )


def ask(case):
    """Sends echo requests, each after the answer to the last.

    `ping` does not wait for the answer, and a guest that was away then answers two at once.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
        s.connect((GUEST, 0))
        s.settimeout(30)
        for n in range(BURSTS):
            echo = lambda kind, sum: (
                struct.pack(">BBHHH", kind, 0, sum, 0xDB, n) + bytes(case.size - 42)
            )
            # The checksum: of three words that are not zero.
            s.send(echo(8, 0xFFFF - (0x800 + 0xDB + n)))
            # Behind its IP header: type, code, the checksum, and what was asked.
            while (got := s.recv(1 << 16)[20:])[:1] != b"\0" or got[4:] != echo(0, 0)[4:]:
                pass
            time.sleep(EVERY)


def interrupts(guest, names):
    """All that the guest's kernel took under one of these names."""
    lines = [
        l.split()
        for l in guest.run("cat /proc/interrupts").splitlines()
        if any(n in l for n in names)
    ]
    return sum(
        int(f) for l in lines for f in l[1:] if f.isdigit() and len(f) < 12 and l.index(f) <= 2
    )


def from_host():
    """Frames that left the host's end, its kernel's own among them: the end of a TCP connection may
    be sent again seconds after the check that opened it."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()
    (tap0,) = [l.split(":")[1].split() for l in lines if l.strip().startswith("tap0:")]
    return int(tap0[9])


def real(rig, case):
    """Returns how many frames went, and what they add to the ledger."""
    frames = BURSTS * case.burst
    before, taken, left = rig.at_rest(), interrupts(rig.guest, rig.INTERRUPTS), from_host()
    if case.way == "send":
        frames = send_from_guest(rig.guest, case)
    elif case.way == "receive":
        send_from_host(rig, case)
    else:
        ask(case)
    after = rig.at_rest()
    added = {
        **{k: after[k] - before.get(k, 0) for k in after},
        TAKEN: interrupts(rig.guest, rig.INTERRUPTS) - taken,
    }
    if case.way != "send":
        came, frames = added["device_rx_packets"], from_host() - left
        expect(came == frames, f"{case.name}: {came} of {frames} came")
    return frames, added


def ours(rig, scenario, sets, case):
    own = {
        "way": case.way,
        "size": case.size,
        "burst": case.burst,
        "every": EVERY * 1e6,
        "bursts": BURSTS,
    }
    if case.way != "receive":
        # Of what is sent; the lab refuses what has no effect.
        own["checksum"] = "on" if case.checksum else "off"
    line = [rig.binary, "run", scenario, "--quiet", "--format", "json"]
    for key, value in [(f"paced.{k}", v) for k, v in own.items()] + list(sets.items()):
        line += ["--set", f"{key}={value}"]
    done = subprocess.run(line, capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(map(str, line))}: {done.stderr}")
    counts = json.loads(done.stdout)["ledger"]
    return {
        **counts,
        TAKEN: sum(counts.get(f"driver_{n}", 0) for n in ("irqs", "tx_irqs", "rx_irqs")),
    }


def shown(v):
    return f"{v:.3f}".rstrip("0").rstrip(".")


def beside(rig, scenario, cases, rows, **sets):
    """A table of all cases. What is further apart than it may be is said at the end, all of it."""
    if "pktgen" not in rig.guest.run("cat /proc/modules"):
        rig.guest.run("insmod /m/pktgen.ko")
    sets = {k.replace("__", "."): v for k, v in sets.items()}
    wrong = []
    for case in cases:
        (sent, a), b = real(rig, case), ours(rig, scenario, sets, case)
        frames = BURSTS * case.burst
        print(f"      {case.name + ', a frame':52}   Linux    ours")
        for row in rows:
            of = [sum(sign * c.get(name, 0) for name, sign in row.counts.items()) for c in (a, b)]
            if of == [0, 0]:
                continue
            apart = row.slack is not None and abs(of[0] - of[1] * sent / frames) > row.slack + abs(
                sent - frames
            )
            print(
                f"        "
                f"{row.name:48}{shown(of[0] / sent):>10}{shown(of[1] / frames):>8}"
                f"{' !' if apart else ''}"
            )
            if apart:
                wrong.append(
                    f"{case.name}, {row.name}: {of[0]} of {sent} frames, ours {of[1]} of {frames}"
                )
    expect(not wrong, "; ".join(wrong))
