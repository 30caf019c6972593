#!/usr/bin/env python3
"""Linux's own drivers on our devices: what a guest sees, and what the ledger counted, must agree.

run.py BINARY CACHE WORK [DEVICE...]: the server's binary, what fetch.sh brought, a directory for logs.
TIER=short (default) or long; CPUS="2": guests of so many. Runs in a network namespace of its own: test-guest.sh makes it.
"""

import os
import pathlib
import subprocess
import sys
import time

from axienet import Axienet
from guest import Failed, Guest, initramfs
from mlx5 import Mlx5, inbound_bytes, recovery, side_by_side
from papr import Ibmveth, Ibmvnic
from rig import LONG, Rig, expect, untap, wire

DEVICES = ["e1000", "e1000-82544gc", "e1000-82545em", "mlx5", "axi-ethernet", "vnic", "veth"]
FEW = ["e1000-82544gc", "e1000-82545em"]
KINDS = {"mlx5": Mlx5, "axi-ethernet": Axienet, "vnic": Ibmvnic, "veth": Ibmveth}
MODULES = ["e1000", "llc", "stp", "mrp", "garp", "8021q"]
MODULES += ["pci-hyperv-intf", "mlxfw", "psample", "tls", "mlx5_core", "pktgen", "e1000e", "failover", "net_failover", "virtio_net"]


def doorbell_pages(cache, work, initrd):
    """Pages that the guest writes without a trap: QEMU maps them, and the server sees each write."""
    directory = work / "bell"
    directory.mkdir(exist_ok=True)
    (directory / "socket").unlink(missing_ok=True)
    bell = subprocess.Popen(["target/debug/examples/bell", directory / "socket"], stdout=subprocess.PIPE, text=True)
    guest = None
    try:
        until = time.monotonic() + 10
        while not (directory / "socket").exists() and time.monotonic() < until:
            time.sleep(0.02)
        guest = Guest(cache, initrd, directory / "socket", directory, express=True)
        device = "/sys/bus/pci/devices/0000:01:00.0"
        speed = guest.run(f"cat {device}/current_link_speed").strip()
        expect(speed.startswith("8.0 GT/s"), f"the link has `{speed}`")
        guest.run(f"echo 1 >{device}/enable; B=$(head -1 {device}/resource | cut -d' ' -f1)")
        # Words of several pages, and one that is no doorbell.
        for n, at in enumerate((0x10800, 0x10900, 0x11020, 0x4F040), 1):
            guest.run(f"devmem $((B + {at})) 64 {0x1000 + n}; usleep 20000")
            seen = [int(x, 16) for x in guest.run("devmem $B 32; devmem $((B + 4)) 32").split()]
            expect(seen == [n, 0x1000 + n], f"ring {n} at {at:#x}: {seen}")
            expect(int(guest.run(f"devmem $((B + {at})) 64"), 16) == 0, "the server has taken it")
        guest.run("devmem $((B + 0x10808)) 64 1; usleep 20000")
        guest.stop()
        rung = bell.communicate(timeout=10)[0].split()
        expect(rung == ["4", "0"], f"rung and trapped: {rung}")
    finally:
        for it in (guest, bell):
            if it:
                it.kill()


def kind(device):
    return KINDS.get(device, Rig)


def main():
    binary, cache, work = (pathlib.Path(p) for p in sys.argv[1:4])
    # Where rates are compared.
    release = pathlib.Path(os.environ.get("RELEASE", binary))
    only = sys.argv[4:] or DEVICES
    checks = os.environ.get("CHECKS", "").split() or [c.__name__ for r in (Rig, *KINDS.values()) for c in r.all]
    wire()
    initrd = work / "initrd"
    initramfs(cache, MODULES, initrd)
    wrong = 0
    if not os.environ.get("CHECKS"):
        try:
            doorbell_pages(cache, work, initrd)
            print(f"ok  {doorbell_pages.__doc__}", flush=True)
        except (Failed, subprocess.TimeoutExpired) as e:
            wrong += 1
            print(f"FAILED  doorbell_pages: {e}", flush=True)
    if "mlx5" in only:
        for check in (inbound_bytes, side_by_side, recovery):
            if os.environ.get("CHECKS") and check.__name__ not in checks:
                continue
            since = time.monotonic()
            try:
                check(release, cache, work, initrd)
                print(f"ok  {check.__doc__.strip().splitlines()[0]} ({time.monotonic() - since:.1f} s)", flush=True)
            except (Failed, subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
                wrong += 1
                print(f"FAILED  {check.__name__}: {e}", flush=True)
            finally:
                untap()
    few = not LONG and not os.environ.get("CHECKS")
    guests = [int(n) for n in os.environ.get("CPUS", "1 2" if LONG else "1").split()]
    for device, cpus in [(d, c) for c in guests for d in only]:
        began = time.monotonic()
        print(f"{device}, a guest of {cpus} CPU{'s' if cpus > 1 else ''}", flush=True)
        try:
            made = kind(device)
            cache_of, initrd_of = made.parts(cache, initrd)
            rig = made(binary, cache_of, work, initrd_of, device, cpus)
        except Failed as e:
            print(f"  FAILED to start: {e}")
            wrong += 1
            continue
        try:
            for check in Rig.few if few and device in FEW else kind(device).all:
                if check.__name__ not in checks:
                    continue
                since = time.monotonic()
                try:
                    check(rig)
                    print(f"  ok  {check.__doc__.strip().splitlines()[0]} ({time.monotonic() - since:.1f} s)", flush=True)
                except (Failed, subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
                    wrong += 1
                    said = getattr(e, "stderr", None) or ""
                    print(f"  FAILED  {check.__name__}: {e} {said}", flush=True)
                    if rig.guest.process.poll() is not None:
                        break
                finally:
                    untap()
        finally:
            rig.close()
        print(f"  {time.monotonic() - began:.0f} s; logs in {rig.directory}")
    sys.exit(1 if wrong else 0)


main()
