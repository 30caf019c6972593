//! The namespaces and their contents, in one state of the switch.
//!
//! ```text
//!  vm: eth0 (TAP) = Doorbell = trunk (TAP) ┐
//!                                          ├ sw: Open vSwitch ─ nic (veth, MTU 1500) ─ net: eth0
//!  bare: eth0 (TAP) ───────────────────────┘
//! ```
//!
//! `bare` has the same switch, port and NIC without Doorbell. The offloads of the veth are off, so
//! that frames at the far side are as on a wire. State "off" turns off those of TAPs and switch
//! too.

use super::data_path::{DataPath, Shared};
use super::setup::{self, Setup};
use super::{State, counts::Counts};
use doorbell_host_io::netns::{self, NetNs};
use doorbell_host_io::packet_socket::{Oversize, PacketSocket};
use doorbell_host_io::tap::{Tap, offload};
use doorbell_host_io::{child::ChildGuard, ovs::Ovs};
use doorbell_packet::ethernet;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{fs, io, sync::Arc, thread::JoinHandle};
use tempfile::TempDir;

/// The NIC's MTU, and all others'.
pub(super) const MTU: u32 = ethernet::MTU as u32;
pub(super) const LONGEST: u32 = ethernet::MAX_FRAME as u32;
/// The largest frame that is not segmented; with mss and correlator it fits a receive buffer.
const LARGE: u32 = 65_000;
/// Frames in a device's queue: room for a TCP window, since a full TAP queue drops.
const QUEUE: u32 = 10_000;
/// The network host.
pub(super) const SERVER: &str = "10.77.0.2";
const NAMES: [&str; 4] = ["doorbell-sw", "doorbell-vm", "doorbell-bare", "doorbell-net"];
/// The port of iperf3.
const IPERF3_PORT: u16 = 5201;
const PATIENCE: Duration = Duration::from_secs(20);

/// The host that talks to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// The VM, through ibmveth.
    Ibmveth,
    /// The host at the switch itself.
    Bare,
}

/// Everything that runs in one state; removed when dropped.
#[derive(Debug)]
pub(super) struct Testbed {
    // Dropped in this order: programs, path, switch, then their namespaces and files.
    server: ChildGuard,
    path: Running,
    pub(super) oversize: Oversize,
    pub(super) ovs: Ovs,
    vm: NetNs,
    bare: NetNs,
    pub(super) net: NetNs,
    sw: NetNs,
    /// Directory of iperf3's files, some of which it leaves if a signal ends it.
    files: TempDir,
}

/// iperf3 makes a file for each stream, and removes its name only a moment later.
fn iperf3(host: &NetNs, files: &TempDir) -> Command {
    let mut command = host.command("iperf3");
    command.env("TMPDIR", files.path());
    command
}

/// The path's thread.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// Stops the thread. Returns its error, if it had one.
    fn stop(&mut self) -> io::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(end)) => end,
            Some(Err(_)) => Err(io::Error::other("the path's thread has panicked")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Callers who need the error have called `stop`.
        let _ = self.stop();
    }
}

impl Testbed {
    /// Builds the testbed, and waits until both hosts reach the network. The calling thread has to
    /// live as long as the testbed.
    pub(super) fn build(state: State, setup: &Setup) -> io::Result<Testbed> {
        for name in NAMES {
            NetNs::sweep(name);
        }
        let on = state == State::On;
        let [sw, vm, bare, net] = NAMES.map(NetNs::new);
        let (sw, vm, bare, net) = (sw?, vm?, bare?, net?);
        for ns in [&sw, &vm, &bare, &net] {
            // No frames except ours.
            ns.within(|| {
                ["all", "default"].iter().try_for_each(|which| {
                    let file = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                    if fs::exists(&file)? { fs::write(file, "1") } else { Ok(()) }
                })
            })??;
        }
        sw.run(&format!(
            "ip link add nic mtu {MTU} type veth peer name eth0 mtu {MTU} netns {}",
            net.name()
        ))?;
        let merge = if on { "on" } else { "off" };
        sw.run(&format!("ethtool -K nic tso off tx off gro {merge}"))?;
        net.run("ethtool -K eth0 tso off tx off gro on")?;
        sw.run(&format!("ip link set nic gro_max_size {LARGE} up"))?;
        up(&net, "eth0", 2)?;
        let oversize = sw.within(|| Oversize::open("nic", LONGEST))??;

        let ovs = Ovs::start(&sw, on)?;
        for port in ["trunk", "bare0"] {
            ovs.add_tap(port)?;
        }
        ovs.add_port("nic")?;
        sw.run(&format!("ip link set trunk txqueuelen {QUEUE} up"))?;
        sw.run(&format!("ip link set bare0 netns {} name eth0", bare.name()))?;
        up(&bare, "eth0", 3)?;

        let wanted =
            if on { offload::CSUM | offload::TSO4 | offload::TSO6 | offload::TSO_ECN } else { 0 };
        let tap = vm.within(|| Tap::open("eth0", wanted))??;
        tap.set_nonblocking(true)?;
        let mac = setup::VM_MAC.map(|b| format!("{b:02x}")).join(":");
        vm.run(&format!("ip link set eth0 address {mac} mtu {MTU}"))?;
        up(&vm, "eth0", 1)?;
        let trunk = sw.within(|| PacketSocket::open("trunk"))??;
        let (lan, drivers) = setup.configs(state);
        let path = DataPath::open(lan, drivers, tap, trunk)
            .map_err(|e| io::Error::other(format!("the adapters cannot be opened: {e:?}")))?;
        if path.large_send() != on {
            return Err(io::Error::other("firmware and driver negotiated another state"));
        }
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("path".to_owned()).spawn(move || path.run(&told))?;
        let path = Running { shared, thread: Some(thread) };

        let files = tempfile::Builder::new().prefix("doorbell-live-").tempdir()?;
        let mut command = iperf3(&net, &files);
        command.args(["-s", "-B", SERVER]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = ChildGuard::spawn("iperf3 -s", &mut command)?;
        let mut bed = Testbed { server, path, oversize, ovs, vm, bare, net, sw, files };
        bed.wait()?;
        Ok(bed)
    }

    /// Waits until both hosts reach the network and the server listens.
    fn wait(&mut self) -> io::Result<()> {
        for arm in [Arm::Ibmveth, Arm::Bare] {
            self.wait_for(|bed| {
                let ping = bed.host(arm).run(&format!("ping -c 1 -W 1 {SERVER}"));
                Ok(ping.err().map(|e| format!("{arm:?} does not reach the network: {e}")))
            })?;
        }
        self.wait_for(|bed| {
            let listens = netns::listens(&sockets(&bed.net)?, IPERF3_PORT);
            Ok((!listens).then(|| "iperf3 -s does not listen".to_owned()))
        })
    }

    /// Waits until `lacking` returns nothing. Fails with what it returned last, or if a process or
    /// the path has ended.
    fn wait_for(
        &mut self,
        lacking: impl Fn(&Testbed) -> io::Result<Option<String>>,
    ) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while let Some(what) = lacking(self)? {
            self.alive()?;
            if Instant::now() > until {
                return Err(io::Error::other(what));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits until nothing of an earlier transfer is under way between the VM and the network: no
    /// TCP connection of either host may send any more, and a ping has returned.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.wait_for(|bed| {
            let tables = [sockets(&bed.vm)?, sockets(&bed.net)?];
            // LISTEN (0A) and TIME_WAIT (06) send nothing; the first line has names.
            let sends =
                |l: &str| l.split_whitespace().nth(3).is_some_and(|s| s != "0A" && s != "06");
            let any = tables.iter().any(|t| t.lines().skip(1).any(sends));
            Ok(any.then(|| format!("a TCP connection does not end:\n{}", tables.concat())))
        })?;
        self.vm.run(&format!("ping -c 1 -W {} {SERVER}", PATIENCE.as_secs())).map(drop)
    }

    /// Returns the ids of the other processes.
    pub(super) fn programs(&self) -> [u32; 3] {
        let [switch, database] = self.ovs.ids();
        [switch, database, self.server.id()]
    }

    /// Returns the name of the switch's namespace, for people.
    pub(super) fn switch_name(&self) -> &str {
        self.sw.name()
    }

    pub(super) fn host(&self, arm: Arm) -> &NetNs {
        match arm {
            Arm::Ibmveth => &self.vm,
            Arm::Bare => &self.bare,
        }
    }

    /// Returns a command that runs iperf3 on a host.
    pub(super) fn iperf3(&self, arm: Arm) -> Command {
        iperf3(self.host(arm), &self.files)
    }

    /// Fails if a process or the path has ended.
    pub(super) fn alive(&mut self) -> io::Result<()> {
        self.ovs.alive()?;
        self.server.alive()?;
        if self.path.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            self.path.stop()?;
            return Err(io::Error::other("the path has ended"));
        }
        Ok(())
    }

    /// Returns the bytes that the network host has received and sent.
    pub(super) fn bytes(&self) -> io::Result<[u64; 2]> {
        let text = self.net.within(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
        let fields = text.lines().find_map(|l| l.trim().strip_prefix("eth0:"));
        let number =
            |n: usize| fields.and_then(|f| f.split_whitespace().nth(n)?.parse().ok()).unwrap_or(0);
        Ok([number(0), number(8)])
    }

    /// Returns the path's counts so far.
    pub(super) fn counts(&self) -> io::Result<Counts> {
        self.path.shared.counts().ok_or_else(|| io::Error::other("the path does not answer"))
    }

    /// Ends everything in order. Fails if the path did.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.path.stop()
    }
}

/// Returns the table of TCP sockets of a namespace.
fn sockets(ns: &NetNs) -> io::Result<String> {
    ns.within(|| fs::read_to_string("/proc/thread-self/net/tcp"))?
}

/// Gives an interface its address and brings it up.
fn up(ns: &NetNs, interface: &str, host: u8) -> io::Result<()> {
    ns.run(&format!("ip addr add 10.77.0.{host}/24 dev {interface}"))?;
    let sizes = format!("gso_max_size {LARGE} gro_max_size {LARGE}");
    ns.run(&format!("ip link set {interface} txqueuelen {QUEUE} {sizes} up")).map(drop)
}
