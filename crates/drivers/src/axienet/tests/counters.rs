//! The counters of the driver: which ones an event raises, and by how much.

use super::*;

/// Returns the counters that `act` raises, each with its difference.
fn raised(
    h: &mut Host,
    nic: &mut Axienet,
    act: impl FnOnce(&mut Host, &mut Axienet),
) -> Vec<(&'static str, u64)> {
    let before = nic.stats();
    act(h, nic);
    difference(&before, &nic.stats())
}

fn difference(before: &Stats, after: &Stats) -> Vec<(&'static str, u64)> {
    let pairs = before.entries().zip(after.entries());
    pairs.filter(|(was, is)| was != is).map(|((name, was), (_, is))| (name, is - was)).collect()
}

/// A packet of 60, 20 and 20 bytes with a checksum for the device.
fn queue(h: &mut Host, nic: &mut Axienet) {
    let mut p = pieces(h, 3);
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 16 });
    assert_eq!(nic.transmit(h, p, false), Tx::Ok);
}

#[test]
fn a_packet_sent_counts_once_and_its_pieces_each() {
    let (mut h, mut nic) = open();
    let queued = [("tx_queued", 1), ("tx_descriptors", 3), ("tx_csum", 1), ("tx_tail", 1)];
    assert_eq!(raised(&mut h, &mut nic, queue), queued);
    (0..3).for_each(|i| sent(&mut h, i));
    set_word(&mut h, MM2S, 1, Descriptor::STATUS_AT, Descriptor::CMPLT | Descriptor::DEC_ERR | 20);
    let done = raised(&mut h, &mut nic, |h, nic| {
        let _ = nic.poll(h, 64, &mut Up::default());
    });
    let packet = [("tx_packets", 1), ("tx_bytes", 100), ("tx_status_bytes", 100), ("tx_errors", 1)];
    assert_eq!(done, packet);
}

#[test]
fn each_frame_received_counts_its_fate() {
    let (mut h, mut nic) = open();
    arrive(&mut h, 0, &[1; 100], 0, 0);
    arrive(&mut h, 1, &[1; 200], 0, 0);
    // An error, and a frame of two buffers.
    let error = Descriptor::SOF | Descriptor::EOF | Descriptor::DEC_ERR;
    put_frame(&mut h, 2, 100, [0; 4], error);
    put_frame(&mut h, 3, 100, [0; 4], Descriptor::SOF);
    put_frame(&mut h, 4, 100, [0; 4], Descriptor::EOF);
    let seen = raised(&mut h, &mut nic, |h, nic| {
        let _ = nic.poll(h, 64, &mut Up::default());
    });
    assert_eq!(
        seen,
        [
            ("rx_packets", 2),
            ("rx_bytes", 300),
            ("rx_errors", 1),
            ("rx_malformed", 1),
            ("rx_tail", 1),
        ]
    );
}

#[test]
fn what_a_close_finds_in_the_rings_is_counted() {
    let (mut h, mut nic) = open();
    (0..3).for_each(|_| queue(&mut h, &mut nic));
    // The first packet was done, with an error.
    (0..3).for_each(|i| sent(&mut h, i));
    set_word(&mut h, MM2S, 2, Descriptor::STATUS_AT, Descriptor::CMPLT | Descriptor::SLV_ERR | 20);
    arrive(&mut h, 0, &[1; 60], 0, 0);
    put_frame(&mut h, 1, 60, [0; 4], Descriptor::SOF);
    arrive(&mut h, 5, &[1; 60], 0, 0);
    let before = nic.stats();
    let after = nic.close(&mut h);
    let lost = [("tx_dropped", 2), ("tx_errors", 1), ("rx_lost", 2)];
    assert_eq!(difference(&before, &after), lost);
}

#[test]
fn an_interrupt_of_the_mac_counts_its_causes_apart() {
    let (mut h, mut nic) = open();
    let mut causes = |bits| {
        *h.device.mac(mac::IS) |= bits;
        raised(&mut h, &mut nic, |h, nic| assert_eq!(nic.interrupt(h, line::MAC), Irq::Handled))
    };
    let (overflow, reject) = (int::RX_FIFO_OVERFLOW, int::RX_REJECT);
    assert_eq!(causes(reject), [("rx_rejected", 1), ("mac_irqs", 1)]);
    assert_eq!(causes(overflow), [("rx_missed_errors", 1), ("mac_irqs", 1)]);
    let both = [("rx_rejected", 1), ("rx_missed_errors", 1), ("mac_irqs", 1)];
    assert_eq!(causes(overflow | reject), both);
    let stray = raised(&mut h, &mut nic, |h, nic| {
        assert_eq!(nic.interrupt(h, line::MAC), Irq::None);
    });
    assert_eq!(stray, [("stray_irqs", 1)]);
}
