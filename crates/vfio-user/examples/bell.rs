//! The smallest served device: a PCI Express function with polled doorbell pages. `bell SOCKET`
//! serves one client, then prints the number of doorbells in pages and of trapped ones.
//!
//! Registers of 32 bits: 0 doorbells so far, 4 the lower half of the last value.

use doorbell_hal::{Device, EventSource, Port, Reg, RxVerdict, Span, Time};
use doorbell_vfio_user::{
    Bar, BarOffset, Capability, Crossing, Function, GuestPort, Identity, Listener, Observer,
    PolledPages, readable,
};
use std::error::Error;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Offset of the doorbell pages.
const PAGES: u32 = 0x10000;

#[derive(Debug, Default)]
struct Bell {
    rings: u32,
    last: u32,
}

impl EventSource for Bell {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl<P: Port> Device<P> for Bell {
    fn mmio_read(&mut self, _: &mut P, _: Time, r: Reg, _: u8) -> u64 {
        match r.offset {
            0 => self.rings.into(),
            4 => self.last.into(),
            _ => 0,
        }
    }
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        if r.offset >= PAGES {
            self.rings += 1;
            self.last = v as u32;
            p.raise_msi(at, 0);
        }
    }
    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Yes
    }
    fn advance(&mut self, _: &mut P, _: Time) {}
    fn reset(&mut self, _: &mut P, _: Time) {}
}

#[derive(Debug, Default)]
struct Count {
    trapped: u64,
    rung: u64,
}

impl Observer for Count {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        if let Crossing::RegisterWrite(_, _, _, trapped) = what {
            *(if trapped { &mut self.trapped } else { &mut self.rung }) += 1;
        }
    }
}

fn identity() -> Identity {
    let at = |offset| BarOffset { bar: 0, offset };
    Identity {
        vendor: 0x1234,
        device: 0xbe11,
        subsystem: (0x1234, 0),
        revision: 0,
        class: 0xff_0000,
        bars: [Bar::Memory64(32 << 20), Bar::None, Bar::None, Bar::None, Bar::None, Bar::None],
        line: false,
        capabilities: vec![
            Capability::Power { resets: true },
            Capability::Express { speed: 3, width: 16 },
            Capability::MsiX { vectors: 64, table: at(0x2000), pending: at(0x3000) },
        ],
        polled: Some(PolledPages {
            first: at(PAGES),
            pages: 64,
            words: &[0x20, 0x40, 0x800, 0x900],
        }),
    }
}

/// The device on its port.
type Served = Function<Bell, Count>;
const _: fn(Bell) -> Box<dyn Device<GuestPort<Count>>> = |b| Box::new(b);

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: bell SOCKET")?;
    let mut socket = Listener::bind(Path::new(&path))?;
    let mut f: Served = Function::new(identity(), Bell::default(), Count::default())?;
    let began = Instant::now();
    let now = || Time::ZERO + Span::from_ns(began.elapsed().as_nanos() as u64);
    let mut ready = vec![];
    let client = loop {
        readable(&[socket.as_fd()], None, &mut ready)?;
        if let Some(client) = socket.accept()? {
            break client;
        }
    };
    f.connect(now(), client)?;
    while f.serve(now).is_ok() {
        f.poll_pages(now());
        let fds: Vec<_> = f.fds().collect();
        readable(&fds, Some(Duration::from_micros(50)), &mut ready)?;
    }
    let count = &f.port().observer;
    println!("{} {}", count.rung, count.trapped);
    Ok(())
}
