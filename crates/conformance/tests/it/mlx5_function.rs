//! The mlx5 driver's initialisation and teardown of the function, with faults.

use doorbell_bus::{Bus, ProtectionGranularity};
use doorbell_conformance::mlx5::machine;
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::OpenError;
use doorbell_drivers::mlx5::{Channel, Config, Firmware, Hca};
use doorbell_hal::{Device, EventSource, Host, Iova, Port, Reg, RxVerdict, Span, Time};
use doorbell_layout::mlx5::command::{Entry, InHeader, init_segment as seg, op, own};
use doorbell_layout::mlx5::{Caps, CmdStatus, CompressionLayout, SqState};
use doorbell_testkit::LeakCheckHost;
use doorbell_testkit::direct::{DirectHost, DirectPort};
use doorbell_testkit::reorder::{Order, Reorder};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::{FromZeros, IntoBytes};

const NIC: Nic = Nic::CONNECTX;

/// The fault between driver and device.
#[derive(Debug, Default)]
enum Wrong {
    #[default]
    Nothing,
    /// A register reads as this.
    Reads(u32, u32),
    /// Nothing is there: all ones.
    Gone,
    /// The commands after so many are never answered.
    SilentAfter(u32),
    /// A command with this opcode is refused.
    Refuses(u16),
    /// A command with this opcode is answered with a delivery status.
    Undelivered(u16),
    /// With a signature that is wrong.
    Unsigned(u16),
}

/// A device with something wrong about it.
#[derive(Debug)]
struct Odd {
    device: Mlx5,
    wrong: Wrong,
    cmdq: u64,
    opcodes: Vec<u16>,
}

impl Odd {
    fn host(nic: Nic, wrong: Wrong) -> LeakCheckHost<DirectHost<Odd>> {
        let odd = Odd { device: Mlx5::new(nic), wrong, cmdq: 0, opcodes: Vec::new() };
        LeakCheckHost::new(DirectHost::new(16 << 20, odd))
    }

    fn entry(&self, p: &mut DirectPort, at: Time) -> Entry {
        let mut e = Entry::new_zeroed();
        p.read(at, Iova(self.cmdq), e.as_mut_bytes()).expect("the queue");
        e
    }

    fn give_back(&self, p: &mut DirectPort, at: Time, mut e: Entry, status: u8) {
        e.status_own = status << 1 | own::HARDWARE;
        e.sign();
        e.status_own &= !own::HARDWARE;
        p.write(at, Iova(self.cmdq), e.as_bytes()).expect("the queue");
    }
}

impl EventSource for Odd {
    fn next_due(&self) -> Option<Time> {
        self.device.next_due()
    }
}

impl Device<DirectPort> for Odd {
    fn mmio_read(&mut self, p: &mut DirectPort, at: Time, r: Reg, size: u8) -> u64 {
        match self.wrong {
            Wrong::Gone => u64::MAX,
            Wrong::Reads(offset, v) if r.offset == offset => u64::from(v.swap_bytes()),
            _ => self.device.mmio_read(p, at, r, size),
        }
    }
    fn mmio_write(&mut self, p: &mut DirectPort, at: Time, r: Reg, size: u8, v: u64) {
        if r.offset == seg::CMDQ_LO {
            self.cmdq = u64::from((v as u32).swap_bytes() & !0xfff);
        }
        if r.offset != seg::DOORBELL {
            return self.device.mmio_write(p, at, r, size, v);
        }
        let mut e = self.entry(p, at);
        let opcode = u16::from_be_bytes([e.input[0], e.input[1]]);
        self.opcodes.push(opcode);
        match &mut self.wrong {
            Wrong::SilentAfter(0) => return,
            Wrong::SilentAfter(n) => *n -= 1,
            Wrong::Refuses(o) if *o == opcode => {
                e.output[0] = CmdStatus::BadOp as u8;
                return self.give_back(p, at, e, 0);
            }
            Wrong::Undelivered(o) if *o == opcode => return self.give_back(p, at, e, 2),
            Wrong::Unsigned(o) if *o == opcode => {
                e.output[15] ^= 1;
                e.status_own = 0;
                p.write(at, Iova(self.cmdq), e.as_bytes()).expect("the queue");
                return;
            }
            _ => {}
        }
        self.device.mmio_write(p, at, r, size, v);
    }
    fn receive(&mut self, p: &mut DirectPort, at: Time, frame: &[u8]) -> RxVerdict {
        self.device.receive(p, at, frame)
    }
    fn advance(&mut self, p: &mut DirectPort, until: Time) {
        self.device.advance(p, until);
    }
    fn reset(&mut self, p: &mut DirectPort, at: Time) {
        self.device.reset(p, at);
    }
}

/// Opens a function that does not come up: why, and what it left behind.
fn fails(wrong: Wrong) -> (OpenError, u64) {
    let mut h = Odd::host(NIC, wrong);
    let why = Hca::open(&mut h).expect_err("it cannot come up");
    (why, h.coherent)
}

#[test]
fn the_function_comes_up_in_linuxs_order_and_goes_down_in_reverse() {
    let mut h = Odd::host(NIC, Wrong::Nothing);
    let hca = Hca::open(&mut h).unwrap();
    assert_eq!(hca.mac(), NIC.mac);
    let up = std::mem::take(&mut h.host.device.opcodes);
    let order = [
        op::ENABLE_HCA,
        op::QUERY_ISSI,
        op::SET_ISSI,
        op::QUERY_PAGES,
        op::MANAGE_PAGES,
        op::ACCESS_REG,
        op::QUERY_HCA_CAP,
        op::QUERY_HCA_CAP,
        op::SET_HCA_CAP,
        op::QUERY_PAGES,
        op::MANAGE_PAGES,
        op::INIT_HCA,
        op::QUERY_HCA_CAP,
        op::QUERY_HCA_CAP,
        op::QUERY_NIC_VPORT_CONTEXT,
        op::ALLOC_PD,
        op::ALLOC_TRANSPORT_DOMAIN,
        op::CREATE_TIS,
        op::ACCESS_REG,
    ];
    assert_eq!(up, order);
    assert_eq!(h.host.device.device.pages_held(), 48);
    hca.close(&mut h);
    let down = [
        op::DESTROY_TIS,
        op::DEALLOC_TRANSPORT_DOMAIN,
        op::DEALLOC_PD,
        op::TEARDOWN_HCA,
        op::MANAGE_PAGES,
        op::DISABLE_HCA,
    ];
    assert_eq!(h.host.device.opcodes, down);
    assert_eq!((h.coherent, h.host.device.device.pages_held()), (0, 0));
    let counted = h.host.device.device.command_counters();
    assert_eq!((counted.refused, counted.undelivered, counted.lost), (0, 0, 0));
}

#[test]
fn it_comes_up_again_and_again() {
    let mut h = Odd::host(NIC, Wrong::Nothing);
    for _ in 0..10 {
        let hca = Rc::new(RefCell::new(Hca::open(&mut h).unwrap()));
        let channels: Vec<_> = (0..4)
            .map(|_| Channel::open(&mut h, Rc::clone(&hca), &Config::DEFAULT).unwrap())
            .collect();
        for c in channels {
            c.close(&mut h);
        }
        Rc::into_inner(hca).unwrap().into_inner().close(&mut h);
        assert_eq!(h.coherent, 0);
    }
}

#[test]
fn capabilities_arrive_as_the_device_has_them() {
    for min_inline in 0..4 {
        let caps = Caps {
            min_inline,
            enhanced_mpw: min_inline == 0,
            max_wqe_sz_sq: 512,
            log_max_lso: 16,
            csum: false,
            vlan: true,
            swp: min_inline != 1,
            striding: min_inline == 0,
            compression: (min_inline != 2).then_some(CompressionLayout::Basic),
            second_port: min_inline == 3,
        };
        let mut h = Odd::host(Nic { caps, ..NIC }, Wrong::Nothing);
        let mut hca = Hca::open(&mut h).unwrap();
        assert_eq!(hca.caps(&mut h), caps);
        hca.close(&mut h);
    }
}

#[test]
fn a_firmware_that_wants_no_pages_or_many_gets_them() {
    for (boot_pages, init_pages) in [(0, 0), (1, 3000)] {
        let mut h = Odd::host(Nic { boot_pages, init_pages, ..NIC }, Wrong::Nothing);
        let hca = Hca::open(&mut h).unwrap();
        assert_eq!(h.host.device.device.pages_held(), usize::from(boot_pages + init_pages));
        hca.close(&mut h);
        assert_eq!(h.coherent, 0);
    }
}

#[test]
fn a_device_that_is_not_there_is_given_up_in_time() {
    let mut h = Odd::host(NIC, Wrong::Gone);
    assert!(matches!(Hca::open(&mut h), Err(OpenError::Device(_))));
    assert!(h.now() <= Time::ZERO + Span::from_ms(121_000));
    assert_eq!(h.coherent, 0);
}

#[test]
fn what_is_no_connectx_is_not_driven() {
    for (register, v) in [
        (seg::CMDIF_REV, 4 << 16),
        (seg::CMDQ_LO, 0x66),
        (seg::CMDQ_LO, 0x53),
        (seg::CMDQ_LO, 0x5f),
    ] {
        let (why, left) = fails(Wrong::Reads(register, v));
        assert!(matches!(why, OpenError::Device(_)), "{register:#x} reads {v:#x}: {why:?}");
        assert_eq!(left, 0);
    }
}

#[test]
fn whatever_is_refused_leaves_nothing_behind() {
    let all = [
        op::ENABLE_HCA,
        op::QUERY_ISSI,
        op::SET_ISSI,
        op::QUERY_PAGES,
        op::MANAGE_PAGES,
        op::ACCESS_REG,
        op::QUERY_HCA_CAP,
        op::SET_HCA_CAP,
        op::INIT_HCA,
        op::QUERY_NIC_VPORT_CONTEXT,
        op::ALLOC_PD,
        op::ALLOC_TRANSPORT_DOMAIN,
        op::CREATE_TIS,
    ];
    for opcode in all {
        let (why, left) = fails(Wrong::Refuses(opcode));
        assert_eq!(why, OpenError::Firmware(CmdStatus::BadOp), "{opcode:#x}");
        // A function that was never enabled cannot be disabled: then its queue is the device's.
        assert_eq!(left, if opcode == op::ENABLE_HCA { 2 } else { 0 }, "{opcode:#x}");
    }
}

#[test]
fn an_undelivered_command_is_an_error_of_its_own() {
    let (why, left) = fails(Wrong::Undelivered(op::INIT_HCA));
    assert_eq!((why, left), (OpenError::Firmware(CmdStatus::Undelivered), 0));
}

#[test]
fn an_answer_with_a_wrong_signature_is_not_believed() {
    // Signatures are looked at from SET_HCA_CAP on.
    let (why, left) = fails(Wrong::Unsigned(op::INIT_HCA));
    assert_eq!((why, left), (OpenError::Firmware(CmdStatus::Undelivered), 0));
}

#[test]
fn a_command_that_is_never_answered_keeps_its_memory() {
    let mut h = Odd::host(NIC, Wrong::SilentAfter(5));
    let why = Hca::open(&mut h).expect_err("it falls silent");
    assert_eq!(why, OpenError::Firmware(CmdStatus::Undelivered));
    assert_eq!(h.host.device.opcodes.len(), 6, "no command follows one that is still out");
    assert!(h.now() <= Time::ZERO + Span::from_ms(61_000));
    assert!(h.coherent > 0, "the device may still write there");
}

#[test]
fn memory_that_runs_out_leaves_nothing_behind() {
    for n in 0..4 {
        let mut h = Odd::host(NIC, Wrong::Nothing);
        h.fail_coherent_after = Some(n);
        assert_eq!(Hca::open(&mut h).expect_err("no memory"), OpenError::OutOfMemory);
        assert_eq!(h.coherent, 0, "area {n}");
    }
}

#[test]
fn a_refused_object_says_so() {
    let mut h = Odd::host(NIC, Wrong::Nothing);
    let mut hca = Hca::open(&mut h).unwrap();
    assert_eq!(hca.query_sq(&mut h, 0x100), Err(CmdStatus::BadResource));
    assert_eq!(
        hca.modify_sq(&mut h, 0x100, SqState::Reset, SqState::Ready),
        Err(CmdStatus::BadResource)
    );
    hca.close(&mut h);
}

#[test]
fn commands_take_virtual_time_on_the_lab_machine_and_leave_its_guard_untouched() {
    for guard in [ProtectionGranularity::Page, ProtectionGranularity::Byte] {
        let mut m = machine(Nic { command_time: Span::from_us(20), ..NIC }, guard);
        let hca = Hca::open(&mut m).unwrap();
        assert!(m.now() > Time::ZERO + Span::from_us(19 * 20));
        hca.close(&mut m);
        assert_eq!((m.bus.platform().memory.mapped(), m.ledger().dma_faults), ((0, 0), 0));
    }
}

#[test]
fn commands_are_whole_on_a_cpu_that_reorders_stores() {
    for order in [Order::Late, Order::Overtaken].into_iter().chain((0..20).map(Order::Random)) {
        let mut h = Reorder::new(machine(NIC, ProtectionGranularity::Byte), order);
        let hca = Hca::open(&mut h).unwrap();
        hca.close(&mut h);
        let m = h.into_inner();
        let c = m.device.command_counters();
        assert_eq!((c.undelivered, c.lost, c.refused), (0, 0, 0), "{order:?}");
    }
}

const _: () = assert!(InHeader::LEN == 8);
