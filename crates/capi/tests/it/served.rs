//! The driver in Rust once more, on a card in another process: a machine whose device is a
//! vfio-user client. `serve` counts what crosses, and a frame costs what it costs in a run.
//!
//! The server's clock is the wall's. So frames are alone, and the client waits for each to have
//! left and for its interrupt: of frames in bursts, the moment of a poll would tell how many of
//! them an interrupt is for.

use crate::command::{SOURCES, counts_as_in_rust};
use crate::rust::{MyCard, REGISTRY};
use crate::{built, ran};
use doorbell::bus::{Memory, ProtectionGranularity};
use doorbell::card::system;
use doorbell::hal::OutOfMemory;
use doorbell::key::Values;
use doorbell::layout::e1000::{self as nic, reg};
use doorbell::prelude::*;
use doorbell::{Registry, SettingError};
use doorbell_host_io::shared::{EventFd, memfd};
use doorbell_testkit::vfio_user::{ask, reply, send};
use doorbell_vfio_user::readable;
use memmap2::MmapMut;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Commands of the protocol.
const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
/// Flags of an interrupt request: no data, an eventfd; to unmask, to signal.
const NONE: u32 = 1;
const EVENTFD: u32 = 4;
const UNMASK: u32 = 16;
const TRIGGER: u32 = 32;
/// The region of the configuration space, its command register, and memory and bus mastering
/// there; bus mastering alone.
const CONFIG: u32 = 7;
const COMMAND: u64 = 4;
const ENABLED: u16 = 6;
const MASTER: u16 = 4;

/// Far more than any frame takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The machine looks for effects of an access so much later.
const SOON: Span = Span::from_us(1);

/// The next card: its client's connection, and the other end of its cable.
static NEXT: Mutex<Option<(UnixStream, UnixStream)>> = Mutex::new(None);

/// The client of a served card.
struct Remote {
    socket: UnixStream,
    /// The other end of the card's cable.
    wire: UnixStream,
    line: EventFd,
    /// The line is high, as far as this machine knows.
    high: bool,
    tail: u64,
    /// A frame is to leave.
    sends: bool,
    /// The time from which its effects are waited for.
    due: Option<Time>,
}

fn access(region: u32, offset: u64, len: usize) -> Vec<u8> {
    let words = [region, len as u32].map(u32::to_ne_bytes);
    [&offset.to_ne_bytes()[..], words.as_flattened()].concat()
}

impl Remote {
    /// Takes the next card, which reaches the memory at `base`.
    fn new(memory: &File, base: u64, size: u64) -> Remote {
        let (mut socket, wire) = NEXT.lock().unwrap().take().expect("a served card");
        ask(&mut socket, VERSION, &[0, 0, 1, 0]);
        let (words, long) =
            ([32u32, 3].map(u32::to_ne_bytes), [0, base, size].map(u64::to_ne_bytes));
        let map = [words.as_flattened(), long.as_flattened()].concat();
        send(&socket, DMA_MAP, &map, &[memory.as_fd()]);
        reply(&mut socket).unwrap();
        let line = EventFd::new().unwrap();
        let set = [20, EVENTFD | TRIGGER, 0, 0, 1].map(u32::to_ne_bytes);
        send(&socket, SET_IRQS, set.as_flattened(), &[line.as_fd()]);
        reply(&mut socket).unwrap();
        let enable = [&access(CONFIG, COMMAND, 2), &ENABLED.to_ne_bytes()[..]].concat();
        ask(&mut socket, REGION_WRITE, &enable);
        Remote { socket, wire, line, high: false, tail: 0, sends: false, due: None }
    }

    fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.wire.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.wire.read_exact(&mut frame).unwrap();
        frame
    }

    /// Passes the level of the line on. The server has signalled it if it rose.
    fn look<P: Port>(&mut self, p: &mut P, at: Time) {
        if self.line.take() > 0 {
            self.high = true;
            p.set_irq_line(at, 0, true);
        }
    }
}

impl EventSource for Remote {
    fn next_due(&self) -> Option<Time> {
        self.due
    }
}

impl<P: Port> Device<P> for Remote {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        let read = ask(&mut self.socket, REGION_READ, &access(0, r.offset.into(), size.into()));
        let mut value = [0; 8];
        value[..size.into()].copy_from_slice(&read[16..]);
        if r.offset == reg::ICR && self.high {
            // The read lowers it. If it is high all the same, it is signalled again.
            self.high = false;
            p.set_irq_line(at, 0, false);
            let set = [20, NONE | UNMASK, 0, 0, 1].map(u32::to_ne_bytes);
            ask(&mut self.socket, SET_IRQS, set.as_flattened());
            self.look(p, at);
        }
        u64::from_le_bytes(value)
    }

    fn mmio_write(&mut self, _: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        let write = [&access(0, r.offset.into(), size.into()), &v.to_le_bytes()[..size.into()]];
        ask(&mut self.socket, REGION_WRITE, &write.concat());
        if r.offset == reg::TDT && v != self.tail {
            (self.tail, self.sends, self.due) = (v, true, Some(at + SOON));
        }
    }

    fn receive(&mut self, _: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        let length = (frame.len() as u32).to_be_bytes();
        self.wire.write_all(&[&length, frame].concat()).unwrap();
        self.due = Some(at + SOON);
        RxVerdict::Yes
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        let Some(due) = self.due.filter(|due| *due <= until) else { return };
        self.due = None;
        if std::mem::take(&mut self.sends) {
            let frame = self.frame();
            p.emit(due, &frame);
        }
        let mut ready = Vec::new();
        readable(&[self.line.as_fd()], Some(PATIENCE), &mut ready).unwrap();
        assert!(ready[0], "no interrupt came");
        self.look(p, due);
    }

    fn reset(&mut self, _: &mut P, _: Time) {}
}

/// The card of [`MyCard`], but in another process.
struct Served;

impl Card for Served {
    type Config = RefCell<Option<Remote>>;
    type Device<P: Port> = Remote;
    type Driver<H: Host> = <MyCard as Card>::Driver<H>;
    type Stats = <MyCard as Card>::Stats;
    type Counters = ();

    fn config(v: &Values) -> Result<Self::Config, SettingError> {
        MyCard::config(v).map(|()| RefCell::default())
    }

    fn mac(_: &Self::Config) -> [u8; 6] {
        MyCard::mac(&())
    }

    fn in_flight(_: &Self::Config) -> u32 {
        MyCard::in_flight(&())
    }

    fn own_memory(
        remote: &Self::Config,
        size: usize,
        guard: ProtectionGranularity,
    ) -> Result<Option<Memory>, OutOfMemory> {
        const BASE: u64 = 64 << 20;
        let file = memfd(c"machine", size as u64).unwrap();
        *remote.borrow_mut() = Some(Remote::new(&file, BASE, size as u64));
        // SAFETY: The file is nobody's but the server's, which writes to it as a card does. Each
        // look of the driver comes after a message of the server, or in a later call.
        let bytes = unsafe { MmapMut::map_mut(&file) }.unwrap();
        Memory::over(BASE, bytes, guard).map(Some)
    }

    fn device<P: Port>(remote: &Self::Config) -> Remote {
        remote.take().expect("memory is made first")
    }

    fn open<H: Host>(h: &mut H, _: &Self::Config) -> Result<Self::Driver<H>, OpenError> {
        MyCard::open(h, &())
    }

    fn close<H: Host>(driver: Self::Driver<H>, h: &mut H) -> Self::Stats {
        MyCard::close(driver, h)
    }
}

static SYSTEM: System = system::<Served>("mynic", "a driver on a card that is served");
static SERVED: Registry =
    Registry { systems: &[&SYSTEM], profiles: REGISTRY.profiles, scenarios: REGISTRY.scenarios };

/// A server that ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Server {
    /// Serves a card. Returns its client's connection, and the other end of its cable.
    fn start(program: &Path, dir: &Path) -> (Server, (UnixStream, UnixStream)) {
        let wire = UnixListener::bind(dir.join("wire")).unwrap();
        let mut serve = Command::new(program);
        serve.args(["serve", "e1000-82545em", "--socket", "card", "--uplink", "socket:wire"]);
        serve.args(["--bus", "pcix", "--format", "json"]).current_dir(dir);
        serve.stdout(Stdio::piped()).stderr(File::create(dir.join("err")).unwrap());
        let server = Server(serve.spawn().unwrap());
        let wire = wire.accept().unwrap().0;
        let until = Instant::now() + PATIENCE;
        let card = loop {
            match UnixStream::connect(dir.join("card")) {
                Ok(card) => break card,
                Err(e) => assert!(Instant::now() < until, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        for end in [&card, &wire] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        (server, (card, wire))
    }

    /// Ends it. Returns what it counted.
    fn stop(mut self) -> Value {
        ran(Command::new("kill").arg("-TERM").arg(self.0.id().to_string()));
        let mut report = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut report).unwrap();
        serde_json::from_str(&report).unwrap()
    }
}

/// The ledgers of one line: on a card in the machine; of a machine with a served card; of the
/// server.
struct Ledgers([Map<String, Value>; 3]);

impl Ledgers {
    /// Counts `frames` frames.
    fn of(program: &Path, line: &str, frames: u64) -> Ledgers {
        let line = format!("{line} --set paced.bursts={frames} --no-limits --format json");
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let run = |registry| {
            let (code, text) = doorbell::call(registry, &args, &Arc::default()).unwrap();
            assert_eq!(code, 0, "{line}: {text}");
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let (server, ends) = Server::start(program, dir.path());
        *NEXT.lock().unwrap() = Some(ends);
        let all = [run(&REGISTRY), run(&SERVED), server.stop()];
        Ledgers(all.map(|report| report["ledger"].as_object().unwrap().clone()))
    }

    /// Returns what each of them has counted since `before`.
    fn since(&self, before: &Ledgers) -> [BTreeMap<String, i64>; 3] {
        std::array::from_fn(|i| {
            let n = |of: &Ledgers, name: &str| of.0[i].get(name).and_then(Value::as_i64);
            let name = |name: &String| Some((name.clone(), n(self, name)? - n(before, name)?));
            self.0[i].keys().filter_map(name).collect()
        })
    }
}

/// Counts of the driver's side of a machine, of which a server sees nothing.
const OF_THE_CPU: [&str; 7] = [
    "maps",
    "unmaps",
    "fences",
    "copied_bytes",
    "summed_bytes",
    "buffers_taken",
    "buffers_released",
];
/// The clocks of a register access on PCI-X: address, attributes, two to decode, data, idle.
const ACCESS: i64 = 6;

/// Frames, and how many more.
const FEW: u64 = 100;
const MORE: i64 = 200;

#[test]
fn one_driver_counts_the_same_four_ways() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let program = built(dirs[0].path(), SOURCES);
    let pointers = built(dirs[1].path(), &["tests/it/pointers.c"]);
    // A frame of 60 bytes is read with its descriptor of 16, or written with it; a sent one's
    // status is 4 bytes. TDT or RDT, and IMC and IMS for the interrupt, whose cause is read.
    for (way, counts) in [
        ("send", [("pci_read_bytes", 76), ("pci_write_bytes", 4), ("mmio_writes", 3)]),
        ("receive", [("pci_write_bytes", 68), ("mmio_reads", 1), ("mmio_writes", 3)]),
        ("answer", [("line_interrupts", 2), ("mmio_reads", 2), ("mmio_writes", 6)]),
    ] {
        let line = format!("run mynic-send --set traffic.kind=paced --set paced.way={way}");
        let line = format!("{line} --set bus.kind=pcix");
        for in_c in [&program, &pointers] {
            counts_as_in_rust(in_c, &format!("{line} --set paced.bursts={MORE}"));
        }
        let few = Ledgers::of(&program, &line, FEW);
        let many = Ledgers::of(&program, &line, FEW + MORE as u64);
        let [machine, client, server] = many.since(&few);
        for (name, each) in counts {
            assert_eq!(machine[name], each * MORE, "{way}: {name}");
        }
        let accesses = machine["mmio_reads"] + machine["mmio_writes"];
        for (name, count) in machine.iter().filter(|(name, _)| is_of_the_ledger(name)) {
            let elsewhere = match name.as_str() {
                name if OF_THE_CPU.contains(&name) => client[name],
                // Those of the CPU's own accesses are known where they have a time.
                "pci_clocks" => server[name] + ACCESS * accesses,
                name => server[name],
            };
            assert_eq!(*count, elsewhere, "{way}: {name}");
        }
    }
}

/// Counters of driver and device have their own names, and a server's are elsewhere.
fn is_of_the_ledger(name: &str) -> bool {
    !name.starts_with("driver_") && !name.starts_with("device_")
}

/// A model in the machine has no command register.
#[test]
fn dma_without_bus_mastering_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let program = built(dir.path(), SOURCES);
    let (server, (mut card, _wire)) = Server::start(&program, dir.path());
    ask(&mut card, VERSION, &[0, 0, 1, 0]);
    let mut write = |region, offset, v: u32| {
        let access = access(region, offset, 4);
        ask(&mut card, REGION_WRITE, &[&access[..], &v.to_le_bytes()].concat());
    };
    write(CONFIG, COMMAND, u32::from(ENABLED & !MASTER));
    for (register, v) in [
        (reg::CTRL, nic::CTRL_SLU | nic::CTRL_FD),
        (reg::TDLEN, 4096),
        (reg::TCTL, nic::TCTL_EN),
        (reg::TDT, 1),
    ] {
        write(0, register.into(), v);
    }
    let said = || std::fs::read_to_string(dir.path().join("err")).unwrap();
    let told = "section 6.2.2, command register, bit 2";
    let until = Instant::now() + PATIENCE;
    while !said().contains(told) {
        assert!(Instant::now() < until, "{}", said());
        std::thread::sleep(Duration::from_millis(5));
    }
    let ledger = &server.stop()["ledger"];
    assert_eq!((&ledger["dma_without_master"], &ledger["dma_faults"]), (&1.into(), &1.into()));
}
