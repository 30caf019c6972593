#!/usr/bin/env python3
"""Linux's own drivers on our devices: what a guest sees, and what the ledger counted, must agree.

run.py BINARY CACHE WORK [DEVICE...]: the server's binary, what fetch.sh brought, a directory for
logs. TIER=short (default) or long; CPUS="2": guests of so many. Runs in a network namespace of its
own: test-guest.sh makes it. """

import os
import pathlib
import subprocess
import sys
import time
import traceback

from axienet import Axienet
from guest import PATIENCE, Failed, Guest, initramfs
from mlx5 import Mlx5, inbound_bytes, recovery, side_by_side
from papr import Ibmveth, Ibmvnic
from rig import LONG, Rig, expect, untap, wire

DEVICES = ["e1000", "e1000-82544gc", "e1000-82545em", "mlx5", "axi-ethernet", "vnic", "veth"]
FEW = ["e1000-82544gc", "e1000-82545em"]
NOT_RUN = "not run: the guest has ended"
KINDS = {"mlx5": Mlx5, "axi-ethernet": Axienet, "vnic": Ibmvnic, "veth": Ibmveth}
MODULES = ["e1000", "llc", "stp", "mrp", "garp", "8021q"]
MODULES += [
    "pci-hyperv-intf",
    "mlxfw",
    "psample",
    "tls",
    "mlx5_core",
    "pktgen",
    "e1000e",
    "failover",
    "net_failover",
    "virtio_net",
]


def doorbell_pages(cache, work, initrd):
    """Pages that the guest writes without a trap: QEMU maps them, and the server sees each
    write."""
    directory = work / "bell"
    directory.mkdir(exist_ok=True)
    (directory / "socket").unlink(missing_ok=True)
    bell = subprocess.Popen(
        ["target/debug/examples/bell", directory / "socket"], stdout=subprocess.PIPE, text=True
    )
    guest = None
    try:
        until = time.monotonic() + PATIENCE
        while not (directory / "socket").exists() and time.monotonic() < until:
            time.sleep(0.02)
        guest = Guest(cache, initrd, directory / "socket", directory, express=True)
        device = "/sys/bus/pci/devices/0000:01:00.0"
        speed = guest.run(f"cat {device}/current_link_speed").strip()
        expect(speed.startswith("8.0 GT/s"), f"the link has `{speed}`")
        guest.run(f"echo 1 >{device}/enable; B=$(head -1 {device}/resource | cut -d' ' -f1)")
        # Words of several pages, and one that is no doorbell.
        for n, at in enumerate((0x10800, 0x10900, 0x11020, 0x4F040), 1):
            guest.run(f"devmem $((B + {at})) 64 {0x1000 + n}")
            # The server looks when it has the CPU.
            guest.run(
                f"for i in $(seq 500); do [ $(($(devmem $B 32))) = {n} ] && break; usleep 20000; "
                f"done"
            )
            seen = [int(x, 16) for x in guest.run("devmem $B 32; devmem $((B + 4)) 32").split()]
            expect(seen == [n, 0x1000 + n], f"ring {n} at {at:#x}: {seen}")
            expect(int(guest.run(f"devmem $((B + {at})) 64"), 16) == 0, "the server has taken it")
        guest.run("devmem $((B + 0x10808)) 64 1; usleep 20000")
        guest.stop()
        rung = bell.communicate(timeout=PATIENCE)[0].split()
        expect(rung == ["4", "0"], f"rung and trapped: {rung}")
    finally:
        for it in (guest, bell):
            if it:
                it.kill()


def kind(device):
    return KINDS.get(device, Rig)


def failure(check, *on):
    """Runs a check and removes what it made. Returns why it does not hold, or None; printed."""
    since = time.monotonic()
    try:
        check(*on)
        print(
            f"  ok  {check.__doc__.strip().splitlines()[0]} ({time.monotonic() - since:.1f} s)",
            flush=True,
        )
        return None
    except (Failed, subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        why = f"{e} {getattr(e, 'stderr', None) or ''}".strip()
    except Exception:  # A program has said something else than it does.
        why = traceback.format_exc()
    finally:
        untap()
    print(f"  FAILED  {check.__name__}: {why}", flush=True)
    return why


def alone(checks, *on):
    """Returns why checks do not hold, by check. Each has guests of its own."""
    return {c: why for c in checks if (why := failure(c, *on))}


def in_a_guest(device, cpus, checks, binary, cache, work, initrd):
    """The same, of checks in one guest. When it ends, those that come after are not run."""
    began = time.monotonic()
    print(f"{device}, a guest of {cpus} CPU{'s' if cpus > 1 else ''}", flush=True)
    made = kind(device)
    try:
        cache, initrd = made.parts(cache, initrd)
        rig = made(binary, cache, work, initrd, device, cpus)
    except Failed as e:
        print(f"  FAILED to start: {e}", flush=True)
        return {c: f"the guest did not start: {e}" for c in checks}
    failures = {}
    try:
        for n, check in enumerate(checks):
            if not (why := failure(check, rig)):
                continue
            failures[check] = why
            if rig.guest.process.poll() is not None:
                failures |= dict.fromkeys(checks[n + 1 :], NOT_RUN)
                break
    finally:
        rig.close()
    print(f"  {time.monotonic() - began:.0f} s; logs in {rig.directory}", flush=True)
    return failures


def judged(name, run, checks):
    """Runs checks, some of them once more. Returns the names of those that do not hold.

    A machine that others use may leave a guest without a CPU for seconds, and kernel and TCP act on
    that as they should. A check that can see this says so (`timing`), and is tried once more in a
    fresh guest; both results are printed. Every other fails at once, and so does all in the long
    run, where faults are hunted that show now and then.
    """
    failures = run(checks)
    tried = [c for c, why in failures.items() if why != NOT_RUN]
    if failures and not LONG and all(hasattr(c, "timing") for c in tried):
        again = list(failures)
        print(f"{name}: once more, {' '.join(c.__name__ for c in again)}", flush=True)
        # What the first check brings up the others need.
        second = run(again if checks[0] in again else [checks[0], *again])
        for c in tried:
            print(f"TRIED TWICE  {name}: {c.__name__}, since {c.timing}", flush=True)
            print(f"  first: {failures[c]}\n  then: {second.get(c, 'it held')}", flush=True)
        failures = second
    return [
        f"{name}: {c.__name__}" + f" ({NOT_RUN})" * (why == NOT_RUN) for c, why in failures.items()
    ]


def main():
    binary, cache, work = (pathlib.Path(p) for p in sys.argv[1:4])
    # Where rates are compared.
    release = pathlib.Path(os.environ.get("RELEASE", binary))
    devices = sys.argv[4:] or DEVICES
    asked = os.environ.get("CHECKS", "").split()
    chosen = lambda checks: [c for c in checks if not asked or c.__name__ in asked]
    wire()
    initrd = work / "initrd"
    initramfs(cache, MODULES, initrd)

    parts = [
        (
            "doorbell pages",
            lambda checks: alone(checks, cache, work, initrd),
            chosen([doorbell_pages]),
        )
    ]
    if "mlx5" in devices:
        beside = chosen([inbound_bytes, side_by_side, recovery])
        parts.append(
            (
                "mlx5 beside others",
                lambda checks: alone(checks, release, cache, work, initrd),
                beside,
            )
        )
    for cpus in map(int, os.environ.get("CPUS", "1 2" if LONG else "1").split()):
        for device in devices:
            checks = Rig.few if device in FEW and not LONG and not asked else kind(device).all
            run = lambda checks, device=device, cpus=cpus: in_a_guest(
                device, cpus, checks, binary, cache, work, initrd
            )
            parts.append((f"{device}, {cpus} CPU", run, chosen(checks)))

    known = {c.__name__ for _, _, checks in parts for c in checks}
    if not {*asked} <= known:
        sys.exit(f"run.py: no such check of {' '.join(devices)}: {' '.join({*asked} - known)}")
    wrong = [what for name, run, checks in parts if checks for what in judged(name, run, checks)]
    for what in wrong:
        print(f"FAILED  {what}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
