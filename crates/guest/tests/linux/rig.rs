//! A device with a guest on it, and what checks do with them. In virtual time the device is in
//! QEMU's process, and the laboratory's peer is at the other end of its wire. On the machine's
//! clock it is served, and the host's network is there.

use crate::bench::{Platform, bench, long};
use crate::capture;
use crate::host::{OrFail, PATIENCE, fresh, host, iperf_server, received, send_on, sleep, until};
use crate::numbers::Numbers;
use doorbell_guest::net::{GUEST, HOST, HOST_MAC, MAC, TAP, text};
use doorbell_guest::{Arch, Device, Guest, InProcess, Parts, Prices, Server};
use doorbell_host_io::packet_socket::PacketSocket;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The kernel's words on its clock when the emulated CPU was not run for a while.
const STARVED: [&str; 3] =
    ["hrtimer: interrupt took", "clocksource: Long readout interval", "sched: DL replenish lagged"];
/// The driver's own complaints, whatever their level.
const COMPLAINTS: [&str; 8] =
    ["Hang", "hang", "Reset adapter", "timeout", "TIMEOUT", "BUG", "WARNING", "Call Trace"];

/// Returns the kernel's warnings that a driver cannot avoid, by their text.
fn known(driver: &str) -> &'static [&'static str] {
    const OWN_BUILD: [&str; 2] =
        ["loading out-of-tree module taints kernel", "module verification failed"];
    match driver {
        "mlx5_core" => &[
            // The card's vendor specific capability is for its tools; ours has none.
            "Failed to get valid vendor specific ID",
            // Nor precision time measurement.
            "PTM is not supported by PCIe",
            // The driver says so whenever it goes promiscuous.
            "S-tagged traffic will be dropped",
        ],
        // axienet_tx_poll returns all that it found sent, which may be more than its budget; the
        // kernel says so once.
        "xilinx_emac" => &[OWN_BUILD[0], OWN_BUILD[1], "NAPI poll function axienet_tx_poll"],
        // Both go on polling after they have rescheduled themselves, and then reach the budget; the
        // kernel says so once.
        "ibmvnic" | "ibmveth" => {
            &[OWN_BUILD[0], OWN_BUILD[1], "Budget exhausted after napi rescheduled"]
        }
        _ => &[],
    }
}

/// A guest, whose commands must succeed.
pub(crate) struct Vm {
    guest: Guest<'static>,
    device: Device,
    /// The words of QEMU and the plug-in.
    log: PathBuf,
}

/// The parts of a guest that differ from one to the other.
pub(crate) struct Options {
    pub(crate) cpus: u32,
    pub(crate) mac: [u8; 6],
    /// Further arguments of QEMU.
    pub(crate) more: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { cpus: 1, mac: MAC, more: Vec::new() }
    }
}

impl Vm {
    /// Boots a guest on a served device.
    pub(crate) fn boot(device: &Device, socket: &Path, directory: &Path, options: &Options) -> Vm {
        let plugin = (device.arch == Arch::Ppc64).then_some(&*bench().plugin);
        Vm::of(device, (Some(socket), None), plugin, directory, options)
    }

    /// Boots a guest in virtual time. An instruction takes 1 ns.
    fn boot_virtual(device: &Device, directory: &Path) -> Vm {
        let [plan, words, talk] = ["plan", "words", "talk"].map(|name| directory.join(name));
        let program = bench().doorbell.display();
        std::fs::write(&plan, host(format!("{program} guest {} --plan", device.name))).or_fail();
        let in_process = InProcess {
            plan: &plan,
            words: &words,
            talk: Some(&talk),
            prices: &Prices { each: 1000, functions: Vec::new() },
            instructions: false,
            mmio: false,
            inclusive: false,
        };
        let plugin = Some(&*bench().plugin);
        Vm::of(device, (None, Some(in_process)), plugin, directory, &Options::default())
    }

    fn of(
        device: &Device,
        (socket, in_process): (Option<&Path>, Option<InProcess<'_>>),
        plugin: Option<&Path>,
        directory: &Path,
        options: &Options,
    ) -> Vm {
        let Platform { machine, kernel, initramfs } = bench().platform(device.arch);
        let parts = Parts {
            device: *device,
            mac: options.mac,
            socket,
            plugin,
            counting: None,
            in_process,
            cpus: options.cpus,
            image: kernel.image(),
            initramfs: &initramfs[usize::from(in_process.is_some())],
            more: &options.more,
            directory,
        };
        // Loops in the guest wait for as long as `PATIENCE` by its clock.
        let began = Instant::now();
        let mut guest = Guest::start(machine, &parts, 2 * PATIENCE, &|| false).or_fail();
        guest.up().or_fail();
        println!("      a boot: {:.1} s", began.elapsed().as_secs_f64());
        let mut vm = Vm { guest, device: *device, log: directory.join("qemu.log") };
        vm.run(format!("NIC=eth0 GUEST={GUEST} HOST={HOST} HOST_MAC={}", text(HOST_MAC)));
        vm
    }

    /// Runs a line of the shell. Returns its output.
    #[track_caller]
    pub(crate) fn run(&mut self, line: impl AsRef<str>) -> String {
        self.guest.shell(line.as_ref()).or_fail()
    }

    /// Returns a number that a line prints.
    #[track_caller]
    pub(crate) fn number(&mut self, line: &str) -> i64 {
        let said = self.run(line);
        said.trim().parse().unwrap_or_else(|_| panic!("`{line}`: {said}"))
    }

    /// Loads a module and those that it needs.
    pub(crate) fn load(&mut self, module: &str) {
        for m in bench().platform(self.device.arch).kernel.load_order(&[module]).or_fail() {
            self.run(format!("[ -d /sys/module/{m} ] || insmod /m/{m}.ko"));
        }
    }

    /// Waits for a driver's interface.
    pub(crate) fn wait_for_interface(&mut self) {
        let there = "[ -e /sys/class/net/eth0 ]";
        self.run(format!("for i in $(seq 50); do {there} && break; sleep 0.1; done; {there}"));
    }

    pub(crate) fn ethtool(&mut self) -> Numbers {
        Numbers::of_ethtool(&self.run("ethtool -S eth0"))
    }

    /// Returns the counters that the kernel has of each interface.
    pub(crate) fn interface(&mut self, names: &[&str]) -> Numbers {
        let files = names.join(" ");
        let said = self.run(format!("cd /sys/class/net/eth0/statistics; cat {files}; cd /"));
        let values = said.split_whitespace().map(|v| v.parse().expect("a number"));
        names.iter().copied().zip(values).collect()
    }

    /// Fails on kernel messages of warning level and worse, and on the driver's own complaints,
    /// since the last look; but for those that are `expected`, by their text.
    #[track_caller]
    pub(crate) fn quiet(&mut self, expected: &[&str]) {
        let said = self.run("dmesg -r -c");
        let ignored = [known(self.device.driver), &STARVED, expected].concat();
        let serious = |line: &&str| {
            let Some((level, _)) = line.strip_prefix('<').and_then(|l| l.split_once('>')) else {
                return false;
            };
            let level: u32 = level.parse().expect("a level");
            level & 7 <= 4 || COMPLAINTS.iter().any(|w| line.contains(w))
        };
        let found = said.lines().filter(serious);
        let found: Vec<_> = found.filter(|l| !ignored.iter().any(|k| l.contains(k))).collect();
        assert!(found.is_empty(), "the kernel warns: {}", found.join("; "));
    }

    pub(crate) fn ended(&mut self) -> bool {
        self.guest.ended()
    }

    #[track_caller]
    pub(crate) fn power_off(&mut self) {
        self.guest.power_off().or_fail();
    }

    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.guest.kill().or_fail();
    }

    /// Returns the words of QEMU and the plug-in.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.log).or_fail()
    }
}

/// Returns a server's counts.
#[track_caller]
pub(crate) fn counts(server: &mut Server) -> Numbers {
    Numbers::of_page(&server.page().or_fail())
}

/// A server's report.
pub(crate) struct Report {
    pub(crate) ledger: Numbers,
    pub(crate) device: Numbers,
    pub(crate) frames: i64,
    pub(crate) clients: i64,
}

impl Report {
    /// Ends a server.
    #[track_caller]
    pub(crate) fn of(server: &mut Server) -> Report {
        let all: Value = serde_json::from_str(&server.end().or_fail()).or_fail();
        let report = Report {
            ledger: Numbers::of_json(&all["ledger"]),
            device: Numbers::of_json(&all["device_counters"]),
            frames: all["frames"].as_i64().expect("frames"),
            clients: all["clients"].as_i64().expect("clients"),
        };
        assert_eq!(report.ledger["dma_faults"], 0, "DMA faults");
        report
    }

    /// Takes the counts of a machine in virtual time.
    #[track_caller]
    fn of_machine(all: &Numbers) -> Report {
        assert_eq!(all["dma_faults"], 0, "DMA faults");
        let of_device = |(k, v): (&str, i64)| Some((k.strip_prefix("device_")?.to_owned(), v));
        let device = all.iter().filter_map(of_device).collect();
        let frames = all["wire_frames"] + all["arrived_frames"];
        Report { ledger: all.clone(), device, frames, clients: 1 }
    }
}

impl Report {
    /// Fails if frames left by an offload with a wrong checksum. Each device counts them.
    #[track_caller]
    fn checksums(&self) {
        assert_eq!(self.device["wire_bad_checksums"], 0, "checksums on the wire");
    }
}

/// Starts a server of a device with a new directory.
#[track_caller]
pub(crate) fn serve(device: &Device, directory: &Path, arguments: &str) -> Server {
    fresh(directory);
    start(&bench().doorbell, device, directory, arguments)
}

/// Starts a server with its own program.
#[track_caller]
pub(crate) fn start(program: &Path, device: &Device, directory: &Path, more: &str) -> Server {
    let more: Vec<String> = more.split_whitespace().map(str::to_owned).collect();
    Server::start(&[program.into()], device, &more, directory).or_fail()
}

/// A device with a guest on it.
pub(crate) struct Rig {
    pub(crate) guest: Vm,
    /// The device's server; none in virtual time.
    server: Option<Server>,
    /// The cable is in, in virtual time.
    plugged: bool,
    pub(crate) device: Device,
    pub(crate) directory: PathBuf,
    options: Options,
}

impl Rig {
    /// Boots a guest, in virtual time without a number of CPUs, or else on a server.
    pub(crate) fn new(device: Device, cpus: Option<u32>) -> Rig {
        let Some(cpus) = cpus else {
            let directory = PathBuf::from(format!("{}-virtual", device.name));
            fresh(&directory);
            let guest = Vm::boot_virtual(&device, &directory);
            let (server, options) = (None, Options::default());
            return Rig { guest, server, plugged: true, device, directory, options };
        };
        let directory = PathBuf::from(format!("{}-{cpus}", device.name));
        fresh(&directory);
        let mut arguments = format!("--uplink tap:{TAP}");
        if !long() {
            // A gigabyte; kept only where a check fails. In a long run it would be ten.
            arguments += &format!(" --capture {}", directory.join("wire.pcapng").display());
        }
        if device.name == "vnic" {
            let pipe = directory.join("control");
            host(format!("mkfifo {}", pipe.display()));
            arguments += &format!(" --control {}", pipe.display());
        }
        let server = start(&bench().doorbell, &device, &directory, &arguments);
        let options = Options { cpus, ..Options::default() };
        let guest = Vm::boot(&device, server.socket(), &directory, &options);
        Rig { guest, server: Some(server), plugged: true, device, directory, options }
    }

    /// Returns true in virtual time.
    pub(crate) fn is_virtual(&self) -> bool {
        self.server.is_none()
    }

    fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("a served device")
    }

    /// Boots another guest on the same server.
    pub(crate) fn boot_again(&mut self) {
        let server = self.server.as_ref().expect("a served device");
        self.guest = Vm::boot(&self.device, server.socket(), &self.directory, &self.options);
    }

    #[track_caller]
    pub(crate) fn run(&mut self, line: impl AsRef<str>) -> String {
        self.guest.run(line)
    }

    #[track_caller]
    pub(crate) fn counts(&mut self) -> Numbers {
        match &mut self.server {
            Some(server) => counts(server),
            None => Numbers::of_machine(&self.guest.guest.counts().or_fail()),
        }
    }

    pub(crate) fn load(&mut self, module: &str) {
        self.guest.load(module);
    }

    #[track_caller]
    pub(crate) fn quiet(&mut self, expected: &[&str]) {
        self.guest.quiet(expected);
    }

    /// Brings the interface up with this MTU.
    pub(crate) fn up(&mut self, mtu: u32) {
        let same = format!("[ $(cat /sys/class/net/eth0/mtu) = {mtu} ]");
        let line = format!("ip link set eth0 mtu {mtu} up && ip addr replace $GUEST/24 dev eth0");
        if self.device.driver == "xilinx_emac" {
            // It takes another MTU only while it is down.
            self.run(format!("{same} || ip link set eth0 down"));
        }
        if self.run(format!("{same} && echo same; true")).trim() == "same" {
            self.run(line);
        } else {
            self.while_up(&line);
        }
        self.carrier(true);
        self.run("ip neigh replace $HOST lladdr $HOST_MAC dev eth0");
    }

    /// Runs a line for which the driver resets the card although the interface is up.
    pub(crate) fn while_up(&mut self, line: &str) {
        // Linux's e1000 has a race here. Its watchdog runs every two seconds. When it does so after
        // e1000_down() has set the carrier off and before that cancels it, it sees a link without
        // carrier, sets TCTL.EN and the carrier on. The reset then clears TCTL.EN, and nobody sets
        // it again, since the carrier is on: no frame leaves until the interface goes down. On a
        // busy machine, where a register access takes tens of milliseconds, one run of five met it.
        // The watchdog's last act is an interrupt; the line follows it, and the next watchdog is
        // two seconds away.
        const AFTER_WATCHDOG: &str = "s=$(grep eth0 /proc/interrupts); for i in $(seq 500); do \
            usleep 20000; [ \"$(grep eth0 /proc/interrupts)\" = \"$s\" ] || break; done; \
            [ $i -lt 500 ] &&";
        let races = self.device.driver == "e1000" && !self.is_virtual();
        let wait = if races { AFTER_WATCHDOG } else { "" };
        self.run(format!("{wait} {{ {line}; }}"));
    }

    /// Waits for the carrier to come or to go.
    pub(crate) fn carrier(&mut self, on: bool) {
        let is = format!("[ $(cat /sys/class/net/eth0/carrier) = {} ]", u8::from(on));
        let tries = 10 * PATIENCE.as_secs();
        self.run(format!("for i in $(seq {tries}); do {is} && break; sleep 0.1; done; {is}"));
    }

    pub(crate) fn pull_or_put_cable(&mut self) {
        match &mut self.server {
            Some(server) => server.pull_or_put_cable().or_fail(),
            None => {
                self.plugged = !self.plugged;
                let state = if self.plugged { "in" } else { "out" };
                self.guest.guest.tell(&format!("cable {state}")).or_fail();
            }
        }
    }

    /// Pings the guest with as many bytes of data.
    pub(crate) fn ping_guest(&mut self, size: usize) {
        if self.is_virtual() {
            self.run(format!("ask icmp 5 {}", size + 42));
        } else {
            host(format!("ping -q -c 5 -i 0.05 -W 2 -M do -s {size} {GUEST}"));
        }
    }

    /// Does `work` while frames of 1000 bytes come for the guest in virtual time, one each 20 us.
    pub(crate) fn flooded(&mut self, work: impl FnOnce(&mut Rig)) {
        self.run("traffic arrivals even 1000000 1000 20000 1 0 && usleep 50000");
        work(self);
        self.run("traffic arrivals even 0 1000 20000 1 0");
    }

    /// Pings the host until it answers.
    pub(crate) fn ping_once(&mut self) {
        self.run("for i in $(seq 60); do ping -q -c 1 -W 1 $HOST && break; done");
    }

    /// Runs iperf3 from guest to host, or with -R in the other direction, for as many bytes (-n) or
    /// seconds (-t) as `what` says. Returns the rate at the receiver in Mbit/s.
    pub(crate) fn iperf(&mut self, what: &str) -> f64 {
        let _server = (!self.is_virtual()).then(|| iperf_server(&HOST.to_string()));
        received(&self.run(format!("iperf3 -c $HOST -f m {what}")))
    }

    /// Returns the counts once no frame is on its way: after a while of virtual time, or the same
    /// on two looks.
    pub(crate) fn at_rest(&mut self) -> Numbers {
        if self.is_virtual() {
            self.run("usleep 300000");
            return self.counts();
        }
        let frames = |counts: &Numbers| {
            let of_frames = |k: &str| {
                ["_frames", "_packets", "tx_taken", "tx_sent"].iter().any(|e| k.ends_with(e))
            };
            let found = counts.iter().filter(|(k, _)| of_frames(k));
            found.map(|(k, v)| (k.to_owned(), v)).collect::<Vec<_>>()
        };
        let mut last = Numbers::default();
        let rest = until(|| {
            sleep(0.3);
            let now = self.counts();
            let same = frames(&now) == frames(&last);
            last = now;
            same
        });
        assert!(rest, "frames go on without end");
        last
    }

    /// Fails unless the driver's counters, as `read` has them, and those of the server are alike in
    /// what `traffic` adds. Returns both.
    #[track_caller]
    pub(crate) fn compare(
        &mut self,
        read: fn(&mut Vm) -> Numbers,
        traffic: fn(&mut Rig),
        pairs: &[(&[&str], &str)],
    ) -> (Numbers, Numbers) {
        let both = |rig: &mut Rig| {
            rig.at_rest();
            (read(&mut rig.guest), rig.counts())
        };
        let (s0, c0) = both(self);
        traffic(self);
        let (s1, c1) = both(self);
        let (s, c) = (s1.since(&s0), c1.since(&c0));
        for (stats, counter) in pairs {
            assert_eq!(s.sum(stats), c[counter], "{stats:?} of the driver, and {counter}");
        }
        (s, c)
    }

    /// Sends frames from the host's end, and waits until each has come to the device.
    #[track_caller]
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        if self.is_virtual() {
            for frame in frames {
                let bytes: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
                self.guest.guest.tell(&format!("frame {bytes}")).or_fail();
            }
            self.run("usleep 30000");
            return;
        }
        let before = self.counts()["arrived_frames"];
        send_on(&PacketSocket::open(TAP).or_fail(), frames);
        let mut arrived = 0;
        let all = until(|| {
            arrived = self.counts()["arrived_frames"] - before;
            arrived >= frames.len() as i64
        });
        assert!(all, "{} frames sent by the host, {arrived} arrived", frames.len());
    }

    /// Starts a server of the same device and its own directory, so that this one's ledger goes on.
    pub(crate) fn serve(&self, name: &str, arguments: &str) -> (PathBuf, Server) {
        let directory = self.directory.join(name);
        let server = serve(&self.device, &directory, arguments);
        (directory, server)
    }

    /// Ends guest and server. Fails if a frame left by an offload with a wrong checksum, if the TAP
    /// device lost frames, or, in the short run, if the capture does not hold what the ledger has,
    /// or checksums in it are wrong; then it is removed.
    pub(crate) fn bill(&mut self) -> Report {
        if self.is_virtual() {
            let all = self.at_rest();
            self.guest.power_off();
            let report = Report::of_machine(&all);
            report.checksums();
            return report;
        }
        self.guest.power_off();
        let report = Report::of(self.server());
        report.checksums();
        assert_eq!(report.ledger["uplink_dropped"], 0, "frames lost at the TAP");
        if !long() {
            let file = self.directory.join("wire.pcapng");
            let captured = capture::frames(&file);
            assert_eq!(captured, report.frames, "frames in the capture, and in the ledger");
            let right = capture::tcp_checksums(&file, GUEST.octets(), 0);
            println!("      {right} segments on the wire, all right");
            std::fs::remove_file(file).or_fail();
        }
        report
    }
}
