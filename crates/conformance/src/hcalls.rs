//! Any bytes as a guest of the vNIC and of the logical LAN behind the plug-in: calls of any number with any
//! arguments from any CPU, whatever stands on the board, translation entries, memory, frames, failovers, time.
//!
//! The server does not panic, and takes a bounded number of calls a look. It reaches only what the table maps: the guest's
//! memory has a second half that no entry names, which stays as it was.

use doorbell_attach::hcalls::{self, CPUS, Guest, HELLO, MEMORY, Partition, Table, Unit, VERSION, VETH, VNIC};
use doorbell_attach::shared::{EventFd, Window, memfd};
use doorbell_attach::vfio_user::{Watch, send_with};
use doorbell_devices::veth::{Adapter, Config, Uplink, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_layout::{ibmveth, ibmvnic::hcall};
use doorbell_seam::{DmaFault, HcallDevice, Iova, Reg, Span, Time};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Bytes of the guest's memory that entries may name, and of the rest.
const MAPPED: usize = 1 << 18;
const REST: usize = 1 << 14;
const CANARY: u8 = 0xa5;
const UNIT: u32 = 0x3000_0003;
/// The board's length, as the plug-in makes it.
const BOARD: usize = 4096 + CPUS * 256;

/// Nobody in particular.
#[derive(Debug, Default)]
struct Nobody;

impl Watch for Nobody {
    fn dma_read(&mut self, _: Time, _: Iova, _: u32) {}
    fn dma_write(&mut self, _: Time, _: Iova, _: u32) {}
    fn fault(&mut self, _: Time, _: &DmaFault) {}
    fn register_read(&mut self, _: Time, _: Reg, _: u8, _: u64) {}
    fn register_write(&mut self, _: Time, _: Reg, _: u8, _: u64, _: bool) {}
    fn line(&mut self, _: Time, _: bool) {}
    fn message(&mut self, _: Time, _: u16) {}
    fn frame(&mut self, _: Time, frame: &[u8]) {
        assert!(!frame.is_empty());
    }
}

type Port = Partition<Nobody>;

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }
    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    /// A number that is often small, an address, or one of the first few of something.
    fn number(&mut self) -> u64 {
        match self.u8() % 6 {
            0 => self.u8().into(),
            1 => u64::from(self.u16()) << 4,
            2 => u64::from(self.u8()) << 12,
            3 => u64::from_le_bytes(self.take()),
            // A buffer descriptor: valid, so long, there.
            4 => 1 << 63 | u64::from(self.u16()) << 32 | u64::from(self.u8()) << 10,
            _ => 0x8000_0000_0000_0000 | u64::from(self.u16()) << 48,
        }
    }
}

/// Calls that the adapters know.
const CALLS: [u64; 20] = [
    hcall::REG_CRQ,
    hcall::FREE_CRQ,
    hcall::ENABLE_CRQ,
    hcall::SEND_CRQ,
    hcall::VIO_SIGNAL,
    hcall::VIOCTL,
    hcall::REG_SUB_CRQ,
    hcall::FREE_SUB_CRQ,
    hcall::SEND_SUB_CRQ,
    hcall::SEND_SUB_CRQ_INDIRECT,
    hcall::EOI,
    ibmveth::H_REGISTER_LOGICAL_LAN,
    ibmveth::H_FREE_LOGICAL_LAN,
    ibmveth::H_ADD_LOGICAL_LAN_BUFFER,
    ibmveth::H_ADD_LOGICAL_LAN_BUFFERS,
    ibmveth::H_FREE_LOGICAL_LAN_BUFFER,
    ibmveth::H_SEND_LOGICAL_LAN,
    ibmveth::H_MULTICAST_CTRL,
    ibmveth::H_CHANGE_LOGICAL_LAN_MAC,
    ibmveth::H_ILLAN_ATTRIBUTES,
];

/// What a plug-in and its guest have, from their side.
struct Theirs {
    board: Window,
    table: Table,
    memory: Window,
    socket: UnixStream,
}

/// A guest that has connected, as the plug-in does it.
fn connect(kind: u32) -> (Theirs, Guest) {
    let made = "there is memory for a test";
    let (socket, ours) = UnixStream::pair().expect(made);
    let board = memfd(c"board", BOARD as u64).expect(made);
    let (table, table_file) = Table::create().expect(made);
    let bell = EventFd::new().expect(made);
    send_with(&socket, &hcalls::message(HELLO, VERSION), &[board.as_fd(), table_file.as_fd(), bell.as_fd()])
        .expect(made);
    let guest = Guest::greet(ours, Unit { address: UNIT, kind }).expect("it is one of ours");
    let memory: File = memfd(c"memory", (MAPPED + REST) as u64).expect(made);
    send_with(&socket, &hcalls::message(MEMORY, (MAPPED + REST) as u64), &[memory.as_fd()]).expect(made);
    let window = |f: &File, n| Window::map(f, 0, n, true).expect(made);
    let (board, memory) = (window(&board, BOARD), window(&memory, MAPPED + REST));
    memory.write(MAPPED, &[CANARY; REST]);
    (Theirs { board, table, memory, socket }, guest)
}

/// Does with the bytes as they say.
pub fn attack(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.u8() % 2 {
        0 => {
            let config = vnic::Config { unit_address: UNIT.into(), ..vnic::Config::POWERVM };
            let mut d = VnicServer::new(config, 2);
            run(&mut input, VNIC, &mut d, |d, what, at| match what % 4 {
                0 => d.fail_over(0, at),
                1 => d.migrate(0, at),
                2 => d.set_link(0, at, what & 4 != 0),
                _ => d.report_error(0, at, what.into(), what & 4 != 0),
            });
        }
        _ => {
            let adapter = |i: usize| Adapter { unit: UNIT.into(), ..Adapter::new(i, i as u8) };
            let mut config = Config::new(vec![adapter(0), adapter(1)]);
            config.uplink = Some(Uplink { port: 0, pvid: 1 });
            run(&mut input, VETH, &mut Veth::new(config), |_, _, _| ());
        }
    }
}

fn run<D: HcallDevice<Port>>(input: &mut Input<'_>, kind: u32, d: &mut D, outside: impl Fn(&mut D, u8, Time)) {
    let mut ports = [Partition::new(Nobody), Partition::new(Nobody)];
    let (theirs, guest) = connect(kind);
    ports[0].connect(guest);
    let mut now = Time::ZERO;
    // The lower half of the window is memory one to one, so that a guest gets somewhere.
    for page in 0..(MAPPED as u64 >> 12) {
        theirs.table.put(page << 12, page << 12 | 3, 1);
    }
    let mut steps = 0;
    while !input.0.is_empty() && steps < 2000 {
        steps += 1;
        now += Span::from_us(1);
        match input.u8() % 8 {
            // A call that somebody might make.
            0..=2 => {
                let place = 4096 + usize::from(input.u8() % 8) * 256;
                let call = CALLS[usize::from(input.u8()) % CALLS.len()];
                let mut words = [call, UNIT.into(), 0, 0, 0, 0, 0, 0, 0, 0];
                for w in &mut words[2..2 + usize::from(input.u8() % 9)] {
                    *w = input.number();
                }
                let words = words.map(u64::to_le_bytes);
                theirs.board.write(place + 8, words.as_flattened());
                theirs.board.write(place, &1u32.to_le_bytes());
            }
            // Anything on the board.
            3 => {
                let at = (usize::from(input.u16()) % (BOARD - 8)) & !7;
                theirs.board.write(at, &input.take::<8>());
            }
            // Memory.
            4 => {
                let at = (usize::from(input.u16()) << 2) & (MAPPED - 32) & !7;
                theirs.memory.write(at, &input.take::<32>());
            }
            // Entries: none names the other half.
            5 => {
                let entry = input.number() & (MAPPED as u64 - 1);
                theirs.table.put(u64::from(input.u16()) << 12, entry, input.u8().into());
            }
            6 => {
                let mut frame = vec![0; usize::from(input.u16() % 2000)];
                let head = input.take::<14>();
                let n = frame.len().min(14);
                frame[..n].copy_from_slice(&head[..n]);
                d.receive(&mut ports, now, &frame);
            }
            _ => {
                outside(d, input.u8(), now);
                now += Span::from_us(u64::from(input.u16()));
            }
        }
        d.advance(&mut ports, now);
        // As the server does: each CPU's place once a look.
        let (mut cpu, mut taken) = (0, 0);
        let _ = ports[0].listen();
        while cpu < CPUS
            && let Some((from, call, arguments)) = ports[0].call(cpu)
        {
            let (answer, _) = d.hcall(&mut ports, 0, now, call, &arguments);
            ports[0].answer(from, &answer);
            (cpu, taken) = (from + 1, taken + 1);
        }
        assert!(taken <= CPUS);
        let _ = ports[0].flush();
    }
    // The guest goes, and nothing is reached any more.
    drop(theirs.socket);
    let _ = ports[0].listen();
    ports[0].disconnect();
    d.advance(&mut ports, now + Span::from_ms(100));
    let mut rest = [0; REST];
    theirs.memory.read(MAPPED, &mut rest);
    assert!(rest.iter().all(|b| *b == CANARY), "memory that no entry names was written");
}
