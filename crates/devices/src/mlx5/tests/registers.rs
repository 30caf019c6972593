//! The initialization segment.

use super::*;
use doorbell_layout::mlx5::command::init_segment as seg;

#[test]
fn the_initialization_segment_says_what_a_driver_looks_for() {
    let mut c = CommandHarness::new(NIC);
    assert_eq!(c.read_register(seg::FW_REV), 35 << 16 | 16);
    assert_eq!(c.read_register(seg::CMDIF_REV), 5 << 16 | 3000);
    assert_eq!(
        c.read_register(seg::CMDQ_LO),
        CommandHarness::CMDQ as u32 | 0x56,
        "32 entries of 64 bytes"
    );
    assert_eq!(c.read_register(seg::INITIALIZING), 0);
    assert_eq!(c.read_register(seg::HEALTH + 0x3c), 0, "no syndrome");
    // Bytes and words of it are those of the big-endian whole.
    let mut read = |at: u32, size| c.device.mmio_read(&mut c.port, Time::ZERO, Reg::at(at), size);
    assert_eq!(read(seg::FW_REV + 1, 1), 35);
    assert_eq!(read(seg::FW_REV, 8).to_le_bytes(), [0, 35, 0, 16, 0, 5, 0x0b, 0xb8]);
}

#[test]
fn the_health_counter_moves_with_time_and_when_it_is_looked_at() {
    let mut c = CommandHarness::new(NIC);
    let first = c.read_register(seg::HEALTH_COUNTER);
    let second = c.read_register(seg::HEALTH_COUNTER);
    assert_ne!(first, second);
    c.now = Time::ZERO + Span::from_ms(2000);
    assert_ne!(c.read_register(seg::HEALTH_COUNTER) - second, 1 << 8);
}

#[test]
fn the_internal_timer_runs_at_the_frequency_that_the_capability_says() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    let mut caps = GeneralCaps::ZERO;
    caps.0.copy_from_slice(&c.caps(cap_type::GENERAL, CURRENT));
    let khz = caps.get(GeneralCaps::FREQUENCY_KHZ);
    c.now = Time::ZERO + Span::from_ms(60_000);
    let ticks =
        u64::from(c.read_register(seg::TIMER_HI)) << 32 | u64::from(c.read_register(seg::TIMER_LO));
    assert_eq!(ticks, u64::from(khz) * 60_000);
}

#[test]
fn writes_that_mean_nothing_are_counted_and_harmless() {
    let mut c = CommandHarness::new(NIC);
    c.port.forbidden = true;
    let writes = [
        (0, 4),
        (0x10, 8),
        (0x14, 2),
        (0x18, 8),
        (0x200, 4),
        (0x1010, 4),
        (0x2000, 4),
        (0x10_800, 8),
    ];
    for (at, size) in writes {
        c.device.mmio_write(&mut c.port, Time::ZERO, Reg::at(at), size, u64::MAX);
    }
    assert_eq!(c.device.counters.bad_doorbells, writes.len() as u64);
    assert_eq!(c.device.next_due(), None);
}
