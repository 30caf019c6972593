"""A Linux guest with one of our devices: initramfs, QEMU, the server, and a shell on the serial
line."""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time
import urllib.request


QEMU = pathlib.Path(__file__).parents[1] / "guest/qemu.sh"

# Seconds after which something hangs. Nothing is measured by it: a guest that shares its CPU with
# twenty others boots in minutes.
PATIENCE = 600


class Failed(Exception):
    """A check that does not hold, or a step that did not come to an end."""


def initramfs(cache, modules, out, triple="x86_64-linux-gnu", loader="lib64/ld-linux-x86-64.so.2"):
    """Writes the guest's initramfs: static busybox as the shell, Debian's own tools, kernel
    modules."""
    guest, entries, made = cache / "guest", [], set()

    def put(name, data, mode):
        parent = os.path.dirname(name)
        if parent and parent not in made:
            put(parent, b"", 0o40755)
        if name not in made:
            made.add(name)
            entries.append((name, data, mode))

    def program(path, name):
        """A program and every library that it is linked with."""
        data = (guest / path).resolve().read_bytes()
        put(f"bin/{name}", data, 0o100755)
        wanted = [data]
        while wanted:
            for lib in needed(wanted.pop()):
                if f"lib/{lib}" in made:
                    continue
                found = [
                    p for d in (f"usr/lib/{triple}", "usr/lib64") if (p := guest / d / lib).exists()
                ]
                if not found:
                    raise Failed(f"{name} needs {lib}, which is not in the guest's packages")
                library = found[0].resolve().read_bytes()
                put(f"lib/{lib}", library, 0o100755)
                wanted.append(library)

    put("init", (pathlib.Path(__file__).parent / "init").read_bytes(), 0o100755)
    put("bin/busybox", (guest / "usr/bin/busybox").read_bytes(), 0o100755)
    for path in ("usr/bin/iperf3", "usr/bin/ping", "usr/sbin/ethtool", "usr/bin/ip"):
        program(path, os.path.basename(path))
    # The loader is where programs look for it; iperf3 cancels threads, which needs libgcc.
    libraries = guest / "usr/lib" / triple
    put(loader, (libraries / os.path.basename(loader)).resolve().read_bytes(), 0o100755)
    for p in libraries.glob("libgcc_s.so.1"):
        put("lib/libgcc_s.so.1", p.resolve().read_bytes(), 0o100755)
    tree = {p.name.split(".")[0]: p for p in (cache / "kernel").rglob("*.ko.xz")}
    built = {p.stem: p for p in (cache / "drivers").glob("*.ko")}
    for module in modules:
        if module in built:
            raw = built[module].read_bytes()
        else:
            raw = subprocess.run(
                ["xz", "-dc", tree[module]], check=True, capture_output=True
            ).stdout
        put(f"m/{module}.ko", raw, 0o100644)
    with open(out, "wb") as f:
        for number, (name, data, mode) in enumerate([*entries, ("TRAILER!!!", b"", 0)]):
            head = "070701" + "".join(
                f"{v:08x}"
                for v in (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
            )
            start = head.encode() + name.encode() + b"\0"
            f.write(start + b"\0" * (-len(start) % 4) + data + b"\0" * (-len(data) % 4))


def needed(elf):
    """The libraries that an ELF file names (DT_NEEDED), without any tool of the machine's."""
    if elf[:4] != b"\x7fELF":
        return []
    word = lambda at, n: int.from_bytes(elf[at : at + n], "little")
    headers, size, count = word(0x20, 8), word(0x36, 2), word(0x38, 2)
    segments = [
        (word(h, 4), word(h + 8, 8), word(h + 16, 8), word(h + 32, 8))
        for h in range(headers, headers + size * count, size)
    ]
    where = lambda a: next(o + a - v for k, o, v, n in segments if k == 1 and v <= a < v + n)
    for kind, offset, _, length in segments:
        if kind == 2:
            tags = [(word(at, 8), word(at + 8, 8)) for at in range(offset, offset + length, 16)]
            table = where(dict(tags)[5])
            return [
                elf[table + v : elf.index(b"\0", table + v)].decode() for t, v in tags if t == 1
            ]
    return []


def counts(port):
    """Ledger and device counters by name, of the server whose metrics are at this port."""
    page = (
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE).read().decode()
    )
    return {
        m[1]: int(m[2])
        for m in re.finditer(r"^doorbell_(\w+?)(?:_total)?\{.*\} (\d+)$", page, re.M)
    }


class Server:
    """`doorbell serve`, with its counts as they are."""

    PORT = 9101
    SOCKET = "--socket"

    def __init__(self, binary, device, uplink, directory, *more):
        self.socket = directory / "socket"
        self.log = directory / "server.log"
        metrics = f"127.0.0.1:{self.PORT}"
        self.process = subprocess.Popen(
            [binary, "serve", device, self.SOCKET, self.socket, "--uplink", uplink]
            + ["--metrics", metrics, "--format", "json", *more],
            stdout=subprocess.PIPE,
            stderr=open(self.log, "w"),
        )
        until = time.monotonic() + PATIENCE
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failed(f"the server did not start: {self.log.read_text()}")
            time.sleep(0.02)

    def counts(self):
        return counts(self.PORT)

    def pull_or_put_cable(self):
        self.process.send_signal(signal.SIGUSR2)

    def stop(self):
        """Ends it; the report that it prints."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=PATIENCE)
        if self.process.returncode != 0:
            raise Failed(f"the server ended with {self.process.returncode}: {self.log.read_text()}")
        return json.loads(out)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Guest:
    """A guest under TCG. KVM is not used: the runs are the same everywhere."""

    def __init__(self, cache, initrd, socket, directory, cpus=1, express=False, extra=()):
        bus = "rp1" if express else "pcie.0"
        device = {
            "driver": "vfio-user-pci",
            "bus": bus,
            "socket": {"type": "unix", "path": str(socket)},
        }
        options = "-M q35,memory-backend=ram -cpu max".split() + ["-smp", str(cpus), *extra]
        options += [
            "-device",
            "pcie-root-port,id=rp1,chassis=1,slot=1",
            "-device",
            json.dumps(device),
        ]
        # The kernel counts its timer's interrupts for ten ticks, and panics where an emulated CPU
        # gets no time: "IO-APIC + timer doesn't work!".
        self.start(cache, initrd, directory, options, "ttyS0", boot="no_timer_check")

    def start(
        self, cache, initrd, directory, options, console, emulator="qemu-system-x86_64", boot=""
    ):
        """Starts QEMU, with memory that is shared, and waits for the shell."""
        self.log = open(directory / "console.log", "wb")
        self.process = subprocess.Popen(
            [QEMU, *options]
            + "-accel tcg -nodefaults -no-user-config -display none -no-reboot".split()
            + "-object memory-backend-memfd,id=ram,size=512M,share=on -m 512M -serial stdio".split()
            + ["-kernel", cache / "vmlinuz", "-initrd", initrd]
            + ["-append", f"console={console} quiet panic=-1 net.ifnames=0 ipv6.disable=1 {boot}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(directory / "qemu.log", "w"),
            env={**os.environ, "DOORBELL_GUEST": str(cache), "DOORBELL_EMULATOR": emulator},
        )
        self.errors = directory / "qemu.log"
        self.pending = b""
        self.until(rb"<<<up ([0-9.]+)>>>", PATIENCE)

    def until(self, pattern, seconds):
        """Reads the console up to a pattern: what was before it, and the match."""
        end = time.monotonic() + seconds
        while not (m := re.search(pattern, self.pending)):
            left = end - time.monotonic()
            ready = left > 0 and select.select([self.process.stdout], [], [], left)[0]
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                why = "ended" if ready else f"said nothing for {seconds} s"
                said = self.pending[-2000:].decode(errors="replace")
                raise Failed(f"the guest {why}; last: {said}\n{self.errors.read_text()}")
            self.log.write(data)
            self.log.flush()
            self.pending += data
        before, self.pending = self.pending[: m.start()], self.pending[m.end() :]
        return before.decode(errors="replace").replace("\r", ""), m

    def run(self, line, seconds=PATIENCE, check=True):
        """Does a line of shell in the guest; what it printed."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        out, m = self.until(rb"<<<done (\d+)>>>\r?\n?", seconds)
        if check and m[1] != b"0":
            raise Failed(f"in the guest, `{line}` ended with {m[1].decode()}: {out.strip()}")
        return out

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.write(b"poweroff -f\n")
            self.process.stdin.flush()
            self.process.wait(timeout=PATIENCE)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
