//! A hostile guest of a device over vfio-user, and the work of each turn.
//!
//! The guest has the device do what costs most: resets, doorbells in messages of as many writes as
//! there may be, rings of the longest buffers and of the shortest segments, frames that come back.
//! Work is counted in the units of `Port::charge`. No turn does more than the share of a guest and
//! one indivisible piece.

use super::super::axi::{Rp1, axi_function};
use super::*;
use doorbell_devices::{e1000::E1000, mlx5::Mlx5};
use doorbell_hal::{Device, EventSource, Reg, RxVerdict};
use doorbell_layout::axienet::{self, DESCRIPTOR, Descriptor, cr, dma, mac, rcw1, tc};
use doorbell_layout::e1000::{
    CTRL_FD, CTRL_RST, CTRL_SLU, ContextTx, DataTx, LegacyTx, RCTL_EN, RCTL_LBM_MAC, RCTL_LPE,
    RCTL_SZ_SHIFT, RCTL_UPE, TCTL_EN, reg, tx_word,
};
use doorbell_layout::mlx5::command::{RqtIn, SLOTS, init_segment, op, own};
use doorbell_layout::mlx5::steering::SET;
use doorbell_layout::mlx5::uar;
use doorbell_testkit::mlx5::{CommandHarness, RecordingPort};
use doorbell_vfio_user::{GuestPort, Share};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tempfile::TempDir;
use zerocopy::IntoBytes;

/// The most work of a turn: a share, and an indivisible piece of an eighth of it.
const MOST: u64 = Share::ALONE + Share::ALONE / 8;
/// The time that passes in a turn. A server that lags as much has a lot to do at once.
const TURN: Span = Span::from_ms(10);
/// Writes in a message.
const WRITES: usize = 40_000;
const CARD: Card = Card {
    name: "card",
    bus: "pcix",
    bits_per_second: 1_000_000_000,
    mac: None,
    trap_doorbells: false,
    fail_every: 0,
};
/// Commands of vfio-user, and a flag: no reply is wanted.
const DMA_MAP: u16 = 2;
const DEVICE_INFO: u16 = 4;
const REGION_WRITE: u16 = 10;
const RESET: u16 = 13;
const WRITE_MULTI: u16 = 15;
const NO_REPLY: u32 = 0x10;
const CONFIG: u32 = 7;

/// A guest that is the only client of a server.
struct Guest<D: Device<GuestPort<SharedBill>>> {
    around: Around<Vfio<D>>,
    client: Client,
    memory: Window,
    file: File,
    /// Bytes that the server has not taken yet.
    unsent: Vec<u8>,
    _dir: TempDir,
}

impl<D: Device<GuestPort<SharedBill>>> Guest<D> {
    /// Connects a guest with so much memory, from address 0 on, to a device that is bus master.
    fn connect(make: impl FnOnce(&SharedBill, &ServeContext) -> Vfio<D>, memory: u64) -> Guest<D> {
        let dir = tempfile::tempdir().expect(MADE);
        let meter = Platform::find(CARD.bus).expect("it is there").rules();
        let mut around = Around::new(make, meter, dir.path());
        let client = around.connect().expect("there is room");
        let file = memfd(c"memory", memory).expect(MADE);
        let window = Window::map(&file, 0, memory as usize, true).expect(MADE);
        let (unsent, memory) = (Vec::new(), window);
        let mut g = Guest { around, client, memory, file, unsent, _dir: dir };
        let len = (g.memory.len() as u64).to_le_bytes();
        let map = [&[32, 0, 0, 0, 3, 0, 0, 0][..], &[0; 16], &len].concat();
        g.ask(&version());
        let map = vfio(DMA_MAP, NO_REPLY, &map);
        send_with_fds(&g.client.socket, &map, &[g.file.as_fd()]).expect(MADE);
        g.write(CONFIG, 4, &6u16.to_le_bytes());
        g
    }

    /// Gives everybody a turn, whose work is bounded.
    fn turn(&mut self) {
        let n = self.client.socket.write(&self.unsent).unwrap_or(0);
        self.unsent.drain(..n);
        let before = self.work();
        self.around.turn();
        let work = self.work() - before;
        assert!(work <= MOST, "{work} units in a turn");
        pass(&self.around.server.clock, TURN);
        while self.around.wire.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {}
    }

    fn work(&self) -> u64 {
        self.around.server.t.work()
    }

    /// Gives turns until something holds.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            self.turn();
        }
        panic!("it does not come, {} units of work later", self.work());
    }

    /// Sends a message that is answered, and gives turns until it is.
    fn ask(&mut self, m: &[u8]) {
        self.unsent.extend_from_slice(m);
        for _ in 0..10_000 {
            self.turn();
            if self.client.socket.read(&mut [0; 256]).is_ok_and(|n| n > 0) {
                return;
            }
        }
        panic!("a message is not answered");
    }

    /// Writes to a region, and gives turns until that is done.
    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let place = [region, data.len() as u32].map(u32::to_le_bytes).concat();
        let body = [&offset.to_le_bytes()[..], &place, data].concat();
        let ask = vfio(DEVICE_INFO, 0, &[&16u32.to_le_bytes()[..], &[0; 12]].concat());
        self.ask(&[vfio(REGION_WRITE, NO_REPLY, &body), ask].concat());
    }

    /// Writes registers of four bytes.
    fn registers(&mut self, region: u32, all: &[(u32, u32)]) {
        for (offset, v) in all {
            self.write(region, u64::from(*offset), &v.to_le_bytes());
        }
    }

    /// Sends a message of as many writes as there may be.
    fn post(&mut self, region: u32, writes: impl Iterator<Item = (u32, u32, u64)>) {
        let mut n = 0u64;
        let all = writes.take(WRITES).flat_map(|(offset, len, v)| {
            n += 1;
            let place = [offset, 0, region, len].map(u32::to_le_bytes);
            [place.as_flattened(), &v.to_le_bytes()].concat()
        });
        let all: Vec<u8> = all.collect();
        let m = vfio(WRITE_MULTI, NO_REPLY, &[&n.to_le_bytes()[..], &all].concat());
        self.unsent.extend_from_slice(&m);
    }

    /// Returns a counter of the device.
    fn count(&self, name: &str) -> u64 {
        let counters = self.around.server.t.report().counters;
        counters.iter().find(|c| c.0 == name).expect("a counter").1
    }
}

#[test]
fn resets_of_a_pci_client_take_a_bounded_share_of_a_turn() {
    let mut g = Guest::connect(e1000, 4096);
    g.post(0, std::iter::repeat((reg::CTRL, 4, CTRL_RST.into())));
    // Each reset costs 512 units at the least.
    let end = g.work() + 512 * WRITES as u64;
    g.until(|g| g.work() >= end);
    let mut c = mlx5();
    let resets = vfio(RESET, NO_REPLY, &[]).repeat(4000);
    c.device.unsent.extend_from_slice(&resets);
    let end = c.device.work() + 2 * 512 * 4000;
    c.device.until(|g| g.work() >= end);
}

// ---- e1000 ----

/// Descriptors of a ring, and where it begins.
const RING: u64 = 4096;
const RING_AT: u64 = 0x10_0000;
const E1000_MEMORY: u64 = 4 << 20;

fn e1000(bill: &SharedBill, c: &ServeContext) -> Vfio<E1000> {
    Vfio::new(CARD, e1000_function(Config::I82540EM, CARD, bill).expect(MADE), bill, c)
}

/// Resets a card and has it send a ring of these descriptors again and again, and take what comes
/// back into buffers of 256 bytes. Returns the work of so many turns.
fn send_ring(g: &mut Guest<E1000>, descriptors: &[[u8; 16]], turns: u32) -> u64 {
    let ring = descriptors.repeat(RING as usize / descriptors.len());
    g.memory.write(RING_AT as usize, ring.as_flattened());
    let receive = RING_AT as u32 + 0x10_0000;
    let upper = (3 << RCTL_SZ_SHIFT) | RCTL_LBM_MAC | RCTL_LPE | RCTL_UPE | RCTL_EN;
    let len = RING as u32 * 16;
    let all = [
        (reg::CTRL, CTRL_RST),
        (reg::CTRL, CTRL_SLU | CTRL_FD),
        (reg::RDBAL, receive),
        (reg::RDLEN, len),
        (reg::RDT, RING as u32 - 1),
        (reg::RCTL, upper),
        (reg::TDBAL, RING_AT as u32),
        (reg::TDLEN, len),
        (reg::TCTL, TCTL_EN),
    ];
    g.registers(0, &all);
    let before = g.work();
    for n in 1..=u64::from(turns) {
        // One behind where it was: the device has never come to its end.
        let tail = (n * (RING - 1)) % RING;
        let tails = [(reg::TDT, 4, tail), (reg::RDT, 4, tail)];
        g.post(0, tails.into_iter().cycle().take(64));
        g.turn();
    }
    g.work() - before
}

/// Returns the descriptors of a large send, its context first.
fn large_send(hdrlen: u8, mss: u16, payload: u32, buffer: u32) -> Vec<[u8; 16]> {
    let word = payload | tx_word::DEXT | tx_word::TSE | tx_word::TCP | tx_word::IP | tx_word::RS;
    let (tucss, tucso, word, mss) = (34, 50, word.into(), mss.into());
    let context = ContextTx { ipcso: 24, tucss, tucso, word, hdrlen, mss, ..ContextTx::default() };
    let end = tx_word::EOP | tx_word::IFCS | tx_word::RS | tx_word::DTYP_DATA;
    let word = (buffer | end | tx_word::DEXT | tx_word::TSE).into();
    let popts = DataTx::IXSM | DataTx::TXSM;
    let data = DataTx { address: 64.into(), word, popts, ..DataTx::default() };
    let of = |b: &[u8]| b.try_into().expect("16 bytes");
    vec![of(context.as_bytes()), of(data.as_bytes())]
}

#[test]
fn rings_of_an_e1000_take_a_bounded_share_of_a_turn() {
    let mut g = Guest::connect(e1000, E1000_MEMORY);
    let legacy = |len, cmd| -> Vec<[u8; 16]> {
        vec![LegacyTx::new(64, len, cmd).as_bytes().try_into().expect("16 bytes")]
    };
    let ends = LegacyTx::EOP | LegacyTx::IFCS | LegacyTx::RS;
    for len in [1, 60, LegacyTx::MAX as u16, u16::MAX] {
        for cmd in [LegacyTx::RS, ends, ends | LegacyTx::IC] {
            let work = send_ring(&mut g, &legacy(len, cmd), 8);
            assert!(len != 60 || cmd & ends != ends || work > 2 * Share::ALONE, "{work} units");
        }
    }
    assert!(g.count("tx_descriptors") > 10 * RING && g.count("resets") > 10);
}

#[test]
fn large_sends_of_an_e1000_take_a_bounded_share_of_a_turn() {
    let mut g = Guest::connect(e1000, E1000_MEMORY);
    let mut most = 0;
    for hdrlen in [0, 1, 54, 255] {
        for mss in [0, 1, 1460, u16::MAX] {
            for payload in [1, 0xf_ffff] {
                let large = large_send(hdrlen, mss, payload, 0xf_ffff);
                most = most.max(send_ring(&mut g, &large, 6));
            }
        }
    }
    assert!(most > 4 * Share::ALONE && g.count("large_sends") > 100, "{most} units");
}

// ---- axi-ethernet ----

/// The BAR of the cores, and the DMA engine on it.
const CORES: u32 = 1;
const ENGINE: u32 = axienet::MAC_LEN;
const AXI_MEMORY: u64 = 16 << 20;
/// A descriptor that names itself, and a buffer.
const SELF: u32 = 0x1000;
const BUFFER: u32 = 0x10_0000;

/// Resets the cores, and has both channels take descriptors from [`SELF`] on up to a tail, while
/// frames come. Returns the work of so many turns.
fn loop_rings(g: &mut Guest<Rp1>, control: u32, tail: u32, turns: u32) -> u64 {
    let descriptor = Descriptor {
        next: SELF.into(),
        buffer: BUFFER.into(),
        control: control.into(),
        ..Descriptor::default()
    };
    g.memory.write(SELF as usize, descriptor.as_bytes());
    g.registers(CORES, &[(ENGINE + dma::CR, cr::RESET)]);
    let tx = (mac::TC, tc::TX | tc::JUMBO);
    g.registers(CORES, &[tx, (mac::RCW1, rcw1::RX | rcw1::JUMBO), (mac::FMI, 1 << 31)]);
    for channel in [axienet::MM2S, axienet::S2MM] {
        let at = ENGINE + channel;
        let run = cr::RS | cr::CYCLIC | cr::IRQ_ALL | 1 << cr::THRESHOLD_SHIFT;
        g.registers(CORES, &[(at + dma::CURDESC, SELF), (at + dma::CR, run)]);
        g.registers(CORES, &[(at + dma::TAILDESC, tail), (at + dma::TAILDESC_MSB, 0)]);
    }
    let frame = [&1500u32.to_be_bytes()[..], &[0xff; 1500]].concat();
    let before = g.work();
    for _ in 0..turns {
        for _ in 0..32 {
            let _ = g.around.wire.write(&frame);
        }
        let tails = [axienet::MM2S, axienet::S2MM]
            .map(|c| (ENGINE + c + dma::TAILDESC, 8, u64::from(tail)));
        g.post(CORES, tails.into_iter().cycle().take(64));
        g.turn();
    }
    g.work() - before
}

#[test]
fn rings_of_an_axi_ethernet_take_a_bounded_share_of_a_turn() {
    let make = |bill: &SharedBill, c: &ServeContext| {
        Vfio::new(CARD, axi_function(bill).expect(MADE), bill, c)
    };
    let mut g = Guest::connect(make, AXI_MEMORY);
    let (begins, ends) = (Descriptor::SOF, Descriptor::EOF);
    for len in [0, 1, 1514, 0x7f_ffff] {
        for control in [begins | ends, begins] {
            // The tail is the descriptor itself, or one that never comes.
            for tail in [SELF, SELF + DESCRIPTOR] {
                let work = loop_rings(&mut g, control | len, tail, 6);
                let dear = len > 9000 && control & begins != 0 && tail != SELF;
                assert!(!dear || work > 4 * Share::ALONE, "{control:x} {len}: {work} units");
            }
        }
    }
    // Those that come while one is under way are ignored.
    g.post(CORES, std::iter::repeat((ENGINE + dma::CR, 4, cr::RESET.into())));
    let end = g.work() + 16 * WRITES as u64;
    g.until(|g| g.work() >= end);
}

// ---- mlx5 ----

/// The commands' harness over a guest: the harness's memory is the guest's.
type Commands = CommandHarness<Guest<Mlx5>>;

/// The function's address, the head of a frame to it, and masks that it is compared under.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FRAME: [u8; 15] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45];
const MASKS: u32 = 200;
const MLX5_MEMORY: u64 = 2 << 20;

fn mlx5() -> Commands {
    Commands::new(Guest::connect(
        |bill, c| Vfio::new(CARD, mlx5_function(CARD, bill).expect(MADE), bill, c),
        MLX5_MEMORY,
    ))
}

impl Guest<Mlx5> {
    /// Has the device see the harness's memory, acts, and has the harness see the device's.
    fn with(&mut self, p: &mut RecordingPort, act: impl FnOnce(&mut Self)) {
        self.memory.write(0, &p.memory);
        act(self);
        self.memory.read(0, &mut p.memory);
    }
}

impl EventSource for Guest<Mlx5> {
    fn next_due(&self) -> Option<Time> {
        Some(self.around.server.clock.now())
    }
}

impl Device<RecordingPort> for Guest<Mlx5> {
    fn mmio_read(&mut self, _: &mut RecordingPort, _: Time, _: Reg, _: u8) -> u64 {
        unreachable!("commands are found in memory")
    }

    fn mmio_write(&mut self, p: &mut RecordingPort, _: Time, r: Reg, size: u8, v: u64) {
        let data = &v.to_le_bytes()[..size.into()];
        self.with(p, |g| g.write(r.region.into(), r.offset.into(), data));
    }

    fn receive(&mut self, _: &mut RecordingPort, _: Time, _: &[u8]) -> RxVerdict {
        unreachable!("no frames come")
    }

    fn advance(&mut self, p: &mut RecordingPort, _: Time) {
        self.with(p, Guest::turn);
    }

    fn reset(&mut self, _: &mut RecordingPort, _: Time) {}
}

#[test]
fn looped_frames_of_an_mlx5_take_a_bounded_share_of_a_turn() {
    let mut c = mlx5();
    c.bring_up();
    let o = c.common();
    c.loop_back(&o, OWN, MASKS);
    let sqn = c.send_queue(&o);
    let doorbell = o.uar * uar::PAGE + uar::SEND;
    let count = |g: &Guest<Mlx5>| g.count("rx_arrived") + g.count("rx_fifo_full");
    // A doorbell for each frame, and the rest of the message for none.
    let words = c.fill(sqn, o.mkey, 0, |_| FRAME);
    c.device.memory.write(0, &c.port.memory);
    c.device.post(0, words.iter().cycle().map(|v| (doorbell, 8, *v)));
    c.device.until(|g| g.unsent.is_empty() && g.count("packets") == 1 << Commands::LOG_SQ);
    // One for all of them.
    let words = c.fill(sqn, o.mkey, 1 << Commands::LOG_SQ, |_| FRAME);
    c.device.memory.write(0, &c.port.memory);
    c.device.post(0, words.iter().rev().take(1).map(|v| (doorbell, 8, *v)));
    c.device.until(|g| count(g) == 2 << Commands::LOG_SQ);
    let compared = u64::from(MASKS) * 12 * c.device.count("rx_arrived");
    assert!(c.device.work() > compared && compared > 8 * Share::ALONE);
}

/// Acts while another CPU gives the entries of all commands to the device again and again.
fn beside(memory: &File, act: impl FnOnce()) {
    let ends = AtomicBool::new(false);
    let give = || {
        let memory = Window::map(memory, 0, MLX5_MEMORY as usize, true).expect(MADE);
        let owners = (1..=SLOTS as usize).map(|n| Commands::CMDQ as usize + n * 64 - 1);
        while !ends.load(Ordering::Relaxed) {
            owners.clone().for_each(|at| _ = memory.write(at, &[own::HARDWARE]));
        }
    };
    thread::scope(|scope| {
        scope.spawn(give);
        act();
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn commands_of_an_mlx5_take_a_bounded_share_of_a_turn() {
    let mut c = mlx5();
    c.bring_up();
    let o = c.common();
    let rqn = c.rq(&o, 4, Commands::DBR + 64, &[Commands::page(2)]).number();
    let tir = c.tir(&o, rqn, false).number();
    let first = c.flow_table(0, None);
    let any = c.flow_group(first, (0, 0xffff), &[0; SET]);
    let mut rqt = RqtIn::ZERO;
    rqt.set(RqtIn::MAX_SIZE, 2048).set(RqtIn::ACTUAL_SIZE, 2048);
    let (fte, tirs) = Commands::flow_entry(first, any, 0, &[tir; 8]);
    let input = |opcode, m: &[u8], list: &[u8]| Commands::input(opcode, 0, m, list);
    let all = [
        input(op::CREATE_RQT, rqt.as_bytes(), &rqn.to_be_bytes().repeat(2048)),
        input(op::SET_FLOW_TABLE_ENTRY, fte.as_bytes(), &tirs),
        input(op::QUERY_HCA_CAP, &[0; 16], &[]),
        input(op::MANAGE_PAGES, &[0xff; 16], &[0; 60_000]),
    ];
    for bytes in &all {
        let written = c.compose(bytes, 0x1010);
        (0..SLOTS as u8).for_each(|slot| c.put(slot, &written));
        c.device.memory.write(0, &c.port.memory);
        c.device.post(0, std::iter::repeat((init_segment::DOORBELL, 4, u64::MAX)));
        let end = c.device.work() + 4 * Share::ALONE;
        let file = c.device.file.try_clone().expect(MADE);
        beside(&file, || c.device.until(|g| g.work() >= end));
    }
    let [done, refused] = ["commands", "refused_commands"].map(|name| c.device.count(name));
    assert!(done > 200 && refused < done / 2, "{done} commands, {refused} refused");
}
