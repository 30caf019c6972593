//! Drivers in Rust with a bug each: a run has to name every one.
//!
//! The driver is that of `examples/driver`, less what no bug needs. A row has the traffic that
//! shows the bug, and the words that have to be said about it. Drivers in C have a zoo in
//! `crates/capi`.

use doorbell::card::system;
use doorbell::devices::e1000::{Config, Counters, E1000};
use doorbell::hal::Alignment;
use doorbell::key::{Key, Values};
use doorbell::layout::e1000::{self as nic, DD, LegacyTx, Rx, reg};
use doorbell::packet::Fragment;
use doorbell::prelude::*;
use doorbell::{Registry, SettingError};
use std::sync::Arc;

const RING: u32 = 256;
const BUFFER: u32 = 2048;
const CAUSES: u32 = nic::INT_TXDW | nic::INT_RXT0 | nic::INT_RXO;

/// The bug: a word of [`BUGS`].
type Bug = &'static str;

static BUGS: [Key; 1] = [Key::choice(
    "zoo.bug",
    &[
        "none",
        "no_fcs",
        "no_link",
        "no_tx_fence",
        "no_rx_fence",
        "no_doorbell",
        "early_doorbell",
        "address",
        "stale_status",
        "masked",
        "kept",
        "rx_leak",
        "early_tail",
        "odd_length",
        "late_head",
        "tail_behind",
    ],
    "the bug of the driver",
)
.default("none")];

struct Animal {
    tx: TxRing,
    rx: RxRing,
    bug: Bug,
    sent: u32,
    kept: Vec<Packet>,
}

impl Animal {
    fn open<H: Host>(h: &mut H, bug: Bug) -> Result<Animal, OpenError> {
        let write = |h: &mut H, at, v| h.write32(Reg::at(at), v);
        write(h, reg::IMC, u32::MAX);
        write(h, reg::CTRL, nic::CTRL_RST);
        h.delay(Span::from_ms(10));
        if bug != "no_link" {
            write(h, reg::CTRL, nic::CTRL_SLU | nic::CTRL_FD);
            while h.read32(Reg::at(reg::STATUS)) & nic::STATUS_LU == 0 {
                h.delay(Span::from_ms(1));
            }
        }
        let (tx, rx) = (
            TxRing::new(h, RING, nic::DESCRIPTOR)?,
            RxRing::new(h, RING, nic::DESCRIPTOR, BUFFER)?,
        );
        let odd = if bug == "odd_length" { 16 } else { 0 };
        write(h, reg::TDBAL, tx.iova().0 as u32);
        write(h, reg::TDLEN, tx.bytes() + odd);
        write(h, reg::TCTL, nic::TCTL_EN | nic::TCTL_PSP);
        if bug == "late_head" {
            write(h, reg::TDH, 0);
        }
        write(h, reg::RDBAL, rx.iova().0 as u32);
        if bug == "early_tail" {
            write(h, reg::RDT, RING - 1);
        }
        write(h, reg::RDLEN, rx.bytes());
        write(h, reg::RCTL, nic::RCTL_EN | nic::RCTL_BAM | nic::RCTL_SECRC);
        let mut driver = Animal { tx, rx, bug, sent: 0, kept: Vec::new() };
        driver.refill(h);
        write(h, reg::IMS, CAUSES);
        Ok(driver)
    }

    fn close<H: Host>(self, h: &mut H) {
        h.write32(Reg::at(reg::CTRL), nic::CTRL_RST);
        h.delay(Span::from_ms(10));
        self.tx.release(h);
        if self.bug != "rx_leak" {
            self.rx.release(h);
        }
    }

    fn fence<H: Host>(&self, h: &mut H, without: Bug) {
        if self.bug != without {
            h.fence(Fence::Write);
        }
    }

    fn refill<H: Host>(&mut self, h: &mut H) {
        if self.rx.refill(h, |to| Rx { address: to.iova().0.into(), ..Rx::default() }) > 0 {
            self.fence(h, "no_rx_fence");
            h.write32(Reg::at(reg::RDT), self.rx.tail());
        }
    }
}

impl<H: Host> Driver<H> for Animal {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.sent += 1;
        if self.bug == "kept" && self.sent.is_multiple_of(100) {
            self.kept.push(p);
            return Tx::Ok;
        }
        let Ok(mut p) = p.linearise(h, Alignment::ANY) else { panic!("there is memory") };
        p.complete_checksum(h).expect("a frame with its headers");
        let fcs = if self.bug == "no_fcs" { 0 } else { LegacyTx::IFCS };
        let off = if self.bug == "address" { 1 << 20 } else { 0 };
        let rung = self.bug == "early_doorbell" || self.bug == "no_doorbell";
        if self.bug == "early_doorbell" {
            h.write32(Reg::at(reg::TDT), (self.tx.tail() + 1) % RING);
        }
        let queued = self.tx.push(h, p, |to| {
            let cmd = LegacyTx::EOP | LegacyTx::RS | fcs;
            LegacyTx::new(to.iova().0 + off, to.len() as u16, cmd)
        });
        if (!more || self.tx.is_full()) && !rung {
            self.fence(h, "no_tx_fence");
            // A tail behind the head announces nearly all of the ring.
            let back = if self.bug == "tail_behind" && self.sent == 1000 { RING - 2 } else { 0 };
            h.write32(Reg::at(reg::TDT), (self.tx.tail() + back) % RING);
        }
        queued
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        let stale = self.bug == "stale_status";
        self.tx.reclaim(h, up, |h, ring, at| {
            stale || h.load::<u8>(ring, at + LegacyTx::STATUS) & DD != 0
        });
        let mut received = 0;
        while received < budget {
            let done = self.rx.take(h, |h, ring, at| {
                let d = h.load::<Rx>(ring, at);
                (d.status & DD != 0).then_some(d)
            });
            let Some((buf, d)) = done else { break };
            let len = u32::from(d.length.get());
            up.received(Packet::linear(Fragment { buf, start: 0, len }), false);
            received += 1;
        }
        self.refill(h);
        if self.bug != "masked" {
            h.write32(Reg::at(reg::IMS), CAUSES);
        }
        if received == budget { Poll::Again } else { Poll::Idle }
    }

    fn interrupt(&mut self, h: &mut H, _: u16) -> Irq {
        if h.read32(Reg::at(reg::ICR)) == 0 {
            return Irq::None;
        }
        h.write32(Reg::at(reg::IMC), u32::MAX);
        Irq::Poll
    }

    fn stopped(&self) -> bool {
        self.tx.is_full()
    }
}

struct Zoo;

impl Card for Zoo {
    type Config = Bug;
    type Device<P: Port> = E1000;
    type Driver<H: Host> = Animal;
    type Stats = ();
    type Counters = Counters;
    const RUN: &'static [Key] = &BUGS;

    fn config(v: &Values) -> Result<Bug, SettingError> {
        Ok(v.word("zoo.bug"))
    }
    fn mac(_: &Bug) -> [u8; 6] {
        Config::I82545EM.mac
    }
    fn in_flight(_: &Bug) -> u32 {
        RING - 1
    }
    fn device<P: Port>(_: &Bug) -> E1000 {
        E1000::new(Config::I82545EM)
    }
    fn open<H: Host>(h: &mut H, bug: &Bug) -> Result<Animal, OpenError> {
        Animal::open(h, bug)
    }
    fn close<H: Host>(driver: Animal, h: &mut H) {
        driver.close(h);
    }
    fn rules<P: Port>(device: &E1000) -> impl IntoIterator<Item = Rule> {
        device.rules()
    }
}

static SYSTEM: System = system::<Zoo>("zoo", "a driver with a bug");

static REGISTRY: Registry = Registry {
    systems: &[&SYSTEM],
    profiles: &[(
        "zoo",
        r#"name = "zoo"
system = "zoo"
about = "A slot"
[bus]
kind = { value = "pcie", source = "assumed: any" }
[pcie]
lanes = { value = 4, unit = "lanes", source = "assumed: any" }
"#,
    )],
    scenarios: &[(
        "zoo",
        r#"name = "zoo"
system = "zoo"
profile = "zoo"
about = "A bug"
[traffic]
size = "60 B"
burst = 8
packets = 2000
[run]
guard = "byte"
"#,
    )],
};

/// Sends, receives, or sends one frame at a time.
const SEND: &str = "";
const RECEIVE: &str = concat!(
    "--set traffic.kind=arrivals --set traffic.pattern=poisson --set traffic.load=10% ",
    "--set traffic.arrival_size=1514B --set traffic.warmup=200us --set traffic.duration=2ms",
);
const SLOWLY: &str = "--set traffic.rate=10kpps";
const TCP: &str = concat!(
    "--set traffic.kind=send --set link.rate=1Gbit/s --set traffic.warmup=1ms ",
    "--set traffic.duration=2ms",
);

/// Bug, traffic, and words of which each has to be said.
const ROWS: &[(Bug, &str, &[&str])] = &[
    ("no_fcs", SEND, &["frames on the wire 0", "without IFCS", "SDM 3.3.3"]),
    ("no_link", SEND, &["link up: no", "without CTRL.SLU", "SDM 8.6.2"]),
    (
        "no_tx_fence --order late",
        SEND,
        &["a write barrier is missing", "before the write of TDT 0x"],
    ),
    ("no_tx_fence --order random", SEND, &["a write barrier is missing", "the write of TDT 0x"]),
    ("no_rx_fence --order late", RECEIVE, &["a write barrier is missing", "the write of RDT 0xff"]),
    ("no_doorbell", SLOWLY, &["0 left on the wire", "TDH 0, TDT 0", "register: write IMS 0x"]),
    ("early_doorbell --order late", TCP, &["connections wait for what does not come"]),
    ("address", SEND, &["nothing is mapped at", "register: write TDT 0xff", "DMA: read of"]),
    ("stale_status", SEND, &["nothing is mapped at"]),
    ("masked", SEND, &["ICR 0x", "IMS 0x0", "register: write IMC 0xffffffff"]),
    ("kept", SEND, &["2000 handed to the driver, 1973 came back", "1973 left on the wire"]),
    ("rx_leak", RECEIVE, &["buffers: taken", "4096 bytes in 1 areas not released"]),
    ("early_tail", RECEIVE, &["tails outside of their ring", "SDM 13.4.25"]),
    ("odd_length --strict", SEND, &["lengths that are none of 128", "13.4.38"]),
    ("late_head --strict", SEND, &["heads written to a ring that is enabled", "SDM 13.4.28"]),
    ("tail_behind --strict", SEND, &["tails that pass descriptors which are not done"]),
];

/// Runs a row. Returns its exit code and what it says.
fn ran(bug: &str, traffic: &str) -> (u8, String) {
    let line = format!("run zoo --no-limits --set zoo.bug={bug} {traffic}");
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    doorbell::call(&REGISTRY, &args, &Arc::default()).unwrap_or_else(|e| (e.code, e.what))
}

#[test]
fn every_planted_bug_is_named() {
    let mut unnamed = Vec::new();
    for (bug, traffic, told) in ROWS {
        let (code, said) = ran(bug, traffic);
        let silent: Vec<_> = told.iter().filter(|told| !said.contains(**told)).collect();
        if code != 1 || !silent.is_empty() {
            unnamed.push(format!("{bug} ({code}): {silent:?} is not said in\n{said}"));
        }
    }
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n"));
}

/// No row is named by a driver that has no bug.
#[test]
fn the_driver_without_a_bug_is_sound() {
    for (bug, traffic, _) in ROWS {
        let options = bug.split_once(' ').map_or("", |(_, options)| options);
        let (code, said) = ran(&format!("none {options}"), traffic);
        assert!(code == 0 && said.contains("audit ok"), "{options} {traffic}: {said}");
        assert!(!said.contains("warning"), "{said}");
    }
}

/// A rule that the model works without has a warning.
#[test]
fn without_strict_a_broken_rule_is_a_warning() {
    for bug in ["odd_length", "late_head"] {
        let (code, said) = ran(bug, SEND);
        assert!(code == 0 && said.contains("zoo: warning: 1 "), "{bug}: {said}");
    }
}
