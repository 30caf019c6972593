"""iPXE's driver of the e1000: a boot over the network, which has no Linux in it."""

import http.server
import pathlib
import socket
import subprocess
import sys
import threading

from guest import PATIENCE, QEMU
from rig import GUEST, HOST, MAC, expect, until, wire

# More than the receive FIFO holds, so that the driver's ring of few descriptors runs dry.
BLOB = bytes(range(251)) * 4000
SCRIPT = f"#!ipxe\nimgstat\nimgfetch http://{HOST}/done\npoweroff\n".encode()
DISCOVER, OFFER, REQUEST, ACK = 1, 2, 3, 5


def leases():
    """Answers DHCP: the guest's address, to everybody. Ends with the process."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"tap0")
        s.bind(("", 67))
        while True:
            asked = s.recv(2048)
            # Behind the fixed part and the cookie. iPXE puts the message's type first.
            kind = {DISCOVER: OFFER, REQUEST: ACK}.get(asked[242])
            if asked[240:242] != b"\x35\x01" or kind is None:
                continue
            addresses = socket.inet_aton(GUEST) + socket.inet_aton(HOST)
            # Message type, server, mask, lease of an hour.
            options = bytes([53, 1, kind, 54, 4]) + socket.inet_aton(HOST)
            options += bytes([1, 4, 255, 255, 255, 0, 51, 4, 0, 0, 14, 16, 255])
            answer = b"\x02" + asked[1:16] + addresses + asked[24:240] + options
            s.sendto(answer.ljust(300, b"\0"), ("255.255.255.255", 68))


def ipxe(binary, package, work, device):
    """iPXE gets an address, fetches a megabyte, and runs a script."""
    directory = work / f"ipxe-{device}"
    directory.mkdir(exist_ok=True)
    asked = []

    class Files(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = BLOB if self.path == "/blob" else SCRIPT
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    path = directory / "socket"
    path.unlink(missing_ok=True)
    web = http.server.ThreadingHTTPServer((HOST, 80), Files)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    command = [binary, "serve", device, "--socket", path, "--uplink", "tap:tap0", "--mac", MAC]
    server = subprocess.Popen([*command, "--quiet"], stdout=(directory / "counts").open("w"))
    qemu = None
    try:
        expect(until(path.exists), f"{device}: the server has no socket")
        line = f"dhcp && imgfetch http://{HOST}/blob && chain http://{HOST}/script"
        user = f'{{"driver":"vfio-user-pci","socket":{{"type":"unix","path":"{path}"}}}}'
        memory = "memory-backend-memfd,id=ram,size=256M,share=on"
        command = [QEMU, "-machine", "q35,memory-backend=ram,graphics=off", "-accel", "tcg"]
        command += ["-m", "256M", "-object", memory, "-nodefaults", "-no-reboot"]
        command += ["-display", "none", "-serial", f"file:{directory / 'console'}"]
        command += ["-kernel", package / "usr/lib/ipxe/ipxe.lkrn", "-append", line]
        qemu = subprocess.Popen([*command, "-device", user], stdin=subprocess.DEVNULL)
        qemu.wait(PATIENCE)
        expect(asked == ["/blob", "/script", "/done"], f"{device}: iPXE asked for {asked}")
    finally:
        for it in (qemu, server):
            if it:
                it.terminate()
                it.wait()
        web.shutdown()
        web.server_close()


def main():
    """ipxe.py BINARY PACKAGE WORK DEVICE...: the package is that of tools/guest/package.sh."""
    wire()
    threading.Thread(target=leases, daemon=True).start()
    binary, package, work = (pathlib.Path(p).absolute() for p in sys.argv[1:4])
    for device in sys.argv[4:]:
        ipxe(binary, package, work, device)
        print(f"  ok  {device}: {ipxe.__doc__}", flush=True)


if __name__ == "__main__":
    main()
