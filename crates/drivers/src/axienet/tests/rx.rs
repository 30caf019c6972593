//! Reception.

use super::*;
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, verify};

/// The address that descriptor `i` has for its data.
fn buffer(h: &mut Host, i: u32) -> u32 {
    word(h, S2MM, i, Descriptor::BUFFER_AT)
}
fn status(h: &mut Host, i: u32) -> u32 {
    word(h, S2MM, i, Descriptor::STATUS_AT)
}

#[test]
fn all_descriptors_are_the_devices_and_taildesc_names_the_last() {
    let (mut h, _) = open();
    assert_eq!((tail(&h, S2MM), rings(&h, S2MM)), (Some(7), 1));
    for i in 0..8 {
        assert_eq!((word(&mut h, S2MM, i, Descriptor::CONTROL_AT), status(&mut h, i)), (1522, 0));
        assert_eq!(buffer(&mut h, i) % 64, 2);
    }
}

#[test]
fn a_consumed_descriptor_is_renewed_at_once_and_announced_once_a_poll() {
    let (mut h, mut nic) = open();
    let before: Vec<u32> = (0..8).map(|i| buffer(&mut h, i)).collect();
    (0..3).for_each(|i| arrive(&mut h, i, &[i as u8; 100], 0, 0));
    let mut up = Up::default();
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Idle);
    assert_eq!(up.received.len(), 3);
    assert_eq!((tail(&h, S2MM), rings(&h, S2MM)), (Some(2), 2));
    for i in 0..3 {
        assert_eq!(status(&mut h, i), 0, "the device stops at one that is done");
        assert_eq!(word(&mut h, S2MM, i, Descriptor::CONTROL_AT), 1522);
        assert!(!before.contains(&buffer(&mut h, i)));
    }
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Idle);
    assert_eq!(rings(&h, S2MM), 2, "nothing new, nothing announced");
}

#[test]
fn the_ring_goes_round() {
    let (mut h, mut nic) = open();
    let mut up = Up::default();
    for n in 0..50u32 {
        arrive(&mut h, n % 8, &[n as u8; 60], 0, 0);
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!(tail(&h, S2MM), Some(u64::from(n % 8)));
        let (p, _) = up.received.pop().unwrap();
        assert_eq!(
            h.bytes(&p.head.buf, p.head.start..p.head.start + p.head.len, |b| b.to_vec()),
            [n as u8; 60]
        );
        p.release(&mut h);
    }
}

#[test]
fn the_length_is_app4s_lower_half_and_not_the_status() {
    let (mut h, mut nic) = open();
    put_frame(&mut h, 0, 77, [0; 4], Descriptor::SOF | Descriptor::EOF);
    set_word(&mut h, S2MM, 0, Descriptor::APP_AT + 16, 0xabcd_0000 | 77);
    set_word(
        &mut h,
        S2MM,
        0,
        Descriptor::STATUS_AT,
        Descriptor::CMPLT | Descriptor::SOF | Descriptor::EOF,
    );
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.received[0].0.len(), 77);
}

#[test]
fn the_budget_ends_a_poll() {
    let (mut h, mut nic) = open();
    (0..5).for_each(|i| arrive(&mut h, i, &[1; 60], 0, 0));
    let mut up = Up::default();
    assert_eq!(nic.poll(&mut h, 3, &mut up), Poll::Again);
    assert_eq!((up.received.len(), tail(&h, S2MM)), (3, Some(2)));
    assert_eq!(nic.poll(&mut h, 3, &mut up), Poll::Idle);
    assert_eq!(up.received.len(), 5);
}

#[test]
fn a_descriptor_without_a_new_buffer_is_not_received_twice_and_is_renewed_later() {
    let (mut h, mut nic) = open();
    let mut hoard = Vec::new();
    while let Ok(b) = h.buffer(1522, Alignment { align: 64, offset: 2 }) {
        hoard.push(b);
    }
    arrive(&mut h, 0, &[1; 60], 0, 0);
    arrive(&mut h, 1, &[2; 60], 0, 0);
    let mut up = Up::default();
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Work);
    assert_eq!((up.received.len(), tail(&h, S2MM)), (1, Some(7)), "nothing may be announced");
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Work);
    assert_eq!((up.received.len(), nic.stats().alloc_rx_buff_failed), (1, 2));
    nic.work(&mut h);
    assert_eq!(tail(&h, S2MM), Some(7));
    hoard.into_iter().for_each(|b| h.release(b));
    nic.work(&mut h);
    assert_eq!(tail(&h, S2MM), Some(0));
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Idle);
    assert_eq!((up.received.len(), tail(&h, S2MM)), (2, Some(1)));
}

#[test]
fn a_frame_that_cannot_be_is_dropped_and_its_buffer_stays() {
    let (mut h, mut nic) = open();
    let before: Vec<u32> = (0..8).map(|i| buffer(&mut h, i)).collect();
    let whole = Descriptor::SOF | Descriptor::EOF;
    put_frame(&mut h, 0, 13, [0; 4], whole);
    put_frame(&mut h, 1, 1523, [0; 4], whole);
    // Longer than its buffer: a part, another, and the end.
    put_frame(&mut h, 2, 0, [0; 4], Descriptor::SOF);
    put_frame(&mut h, 3, 0, [0; 4], 0);
    put_frame(&mut h, 4, 100, [0; 4], Descriptor::EOF);
    put_frame(&mut h, 5, 100, [0; 4], whole | Descriptor::SLV_ERR);
    put_frame(&mut h, 6, 100, [0; 4], whole);
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.received.len(), 1);
    assert_eq!((nic.stats().rx_malformed, nic.stats().rx_errors), (3, 1));
    for i in 0..6 {
        assert_eq!((buffer(&mut h, i), status(&mut h, i)), (before[i as usize], 0));
    }
    assert_eq!(tail(&h, S2MM), Some(6));
}

#[test]
fn the_rest_of_a_frame_that_began_with_an_error_is_dropped_too() {
    let (mut h, mut nic) = open();
    put_frame(&mut h, 0, 0, [0; 4], Descriptor::SOF | Descriptor::DEC_ERR);
    put_frame(&mut h, 1, 100, [0; 4], Descriptor::EOF);
    put_frame(&mut h, 2, 101, [0; 4], Descriptor::SOF | Descriptor::EOF);
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.received.iter().map(|(p, _)| p.len()).collect::<Vec<_>>(), [101]);
    assert_eq!((nic.stats().rx_malformed, nic.stats().rx_errors), (1, 1));
}

/// A UDP or TCP frame over IPv4 with right checksums, `pad` bytes of it behind the
/// datagram.
fn ip(udp: bool, payload: usize, pad: usize) -> Vec<u8> {
    let l4 = if udp { 8 } else { 20 } + payload;
    let mut f = [&MAC[..], &[2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0]].concat();
    f.extend(((20 + l4) as u16).to_be_bytes());
    f.extend([0x12, 0x34, 0, 0, 64, if udp { 17 } else { 6 }, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let check = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f.extend([0x30, 0x39, 0x16, 0x2e]);
    match udp {
        true => f.extend([&(l4 as u16).to_be_bytes()[..], &[0, 0]].concat()),
        false => f.extend([1, 2, 3, 4, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]),
    }
    f.extend((0..payload).map(|i| (i * 13 + 1) as u8));
    let at = if udp { 40 } else { 50 };
    let protocol = if udp { 17 } else { 6 };
    let sum =
        Sum::of(&f[34..]).plus(Sum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], protocol, l4 as u32));
    f[at..at + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    f.extend((0..pad).map(|i| (i * 31 + 7) as u8));
    f
}

/// Returns the device's APP3 for a frame.
fn device_sum(frame: &[u8]) -> u16 {
    frame[14..].chunks(2).fold(0, |sum, w| {
        let v =
            u32::from(sum) + u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)]));
        (v + (v >> 16)) as u16
    })
}

#[test]
fn a_partial_checksum_is_a_number_in_network_order_and_covers_padding_too() {
    for udp in [false, true] {
        for (payload, pad) in [(0, 0), (33, 0), (700, 0), (1, 17), (4, 5), (5, 6), (2, 1)] {
            let f = ip(udp, payload, pad);
            assert_eq!(verify(&f).transport, Check::Good);
            let mut spoilt = f.clone();
            spoilt[34] ^= 0x10;
            for (frame, good) in [(&f, true), (&spoilt, false)] {
                let (mut h, mut nic) = open();
                arrive(&mut h, 0, frame, 0, device_sum(frame));
                let mut up = Up::default();
                let _ = nic.poll(&mut h, 64, &mut up);
                assert_eq!(up.received[0].1, good, "udp {udp}, {payload} and {pad}");
                assert_eq!(
                    (nic.stats().rx_csum_good, nic.stats().rx_csum_bad),
                    (good.into(), (!good).into())
                );
            }
            // Read in the other order, the sum is another.
            let swapped = device_sum(&f).swap_bytes();
            assert!(
                swapped == device_sum(&f)
                    || super::super::rx::partial_checksum(swapped, &f).0 == Some(false)
            );
        }
    }
}

#[test]
fn a_partial_checksum_says_nothing_of_frames_that_have_none() {
    let mut none = ip(true, 20, 0);
    none[40..42].fill(0);
    let mut fragment = ip(true, 20, 0);
    fragment[20] = 0x20;
    let arp = [&[0xff; 6][..], &MAC, &[8, 6], &[0; 46]].concat();
    for f in [none, fragment, arp, alloc::vec![0; 14]] {
        assert_eq!(super::super::rx::partial_checksum(device_sum(&f), &f), (None, 0));
    }
}

#[test]
fn a_full_checksum_is_trusted_when_ip_and_transport_are_good() {
    for (code, verified, good, bad) in [
        (0, false, 0, 0),
        (1, false, 0, 0),
        (2, true, 1, 0),
        (3, true, 1, 0),
        (5, false, 0, 0),
        (6, false, 0, 1),
    ] {
        let (mut h, mut nic) = open_with(|c| c.rx_checksum = Checksum::Full);
        // The bits around it mean other things.
        arrive(&mut h, 0, &ip(false, 10, 0), code << 3 | 0x47, 0);
        let mut up = Up::default();
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!(up.received[0].1, verified, "{code}");
        assert_eq!((nic.stats().rx_csum_good, nic.stats().rx_csum_bad), (good, bad), "{code}");
    }
}

#[test]
fn a_core_without_checksums_is_not_believed() {
    let (mut h, mut nic) = open_with(|c| c.rx_checksum = Checksum::None);
    let f = ip(false, 10, 0);
    arrive(&mut h, 0, &f, 2 << 3, device_sum(&f));
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(!up.received[0].1);
}

#[test]
fn jumbo_frames_have_room_for_headers_tag_and_fcs() {
    let (mut h, mut nic) = open_with(|c| c.mtu = 9000);
    assert_eq!(word(&mut h, S2MM, 0, Descriptor::CONTROL_AT), 9022);
    arrive(&mut h, 0, &alloc::vec![3; 9018], 0, 0);
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.received[0].0.len(), 9018);
}

proptest::proptest! {
    /// Whatever the bytes are, the device's sum leads to what a look at all of them says.
    #[test]
    fn the_devices_sum_says_what_a_look_at_all_bytes_does(
        udp in proptest::bool::ANY,
        payload in 0usize..300,
        pad in 0usize..20,
        flip in proptest::option::of((14usize..34, 0u8..8)),
        spoil in proptest::option::of((34usize..60, 1u8..=255)),
    ) {
        let mut f = ip(udp, payload, pad);
        // A change of the IP header that its own checksum does not cover is not a transport's
        // business, except for what the pseudo-header takes.
        if let Some((at, bit)) = flip
            && (22..24).contains(&at)
        {
            f[at] ^= 1 << bit;
        }
        if let Some((at, by)) = spoil
            && at < f.len() - pad
        {
            f[at] ^= by;
        }
        let (found, _) = super::super::rx::partial_checksum(device_sum(&f), &f);
        let expected = match verify(&f).transport {
            Check::Good => Some(true),
            Check::Bad => Some(false),
            Check::Absent | Check::NotApplicable => None,
        };
        proptest::prop_assert_eq!(found, expected);
    }
}
