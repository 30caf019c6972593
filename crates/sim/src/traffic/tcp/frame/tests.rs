use super::*;
use doorbell_packet::headers::{Check, Verdict, verify};

#[test]
fn what_is_written_is_read() {
    let a = SocketAddress { mac: [2, 0, 0, 0, 0, 1], ip: [10, 0, 0, 1], port: 5201 };
    let b = SocketAddress { mac: [2, 0, 0, 0, 0, 2], ip: [10, 0, 0, 2], port: 40000 };
    for (flags, mss) in [(SYN, Some(1460)), (ACK | PSH, None)] {
        for timestamps in [None, Some((7, 9))] {
            let h = Header { seq: 1, ack: u32::MAX, flags, window: 77, mss, timestamps };
            let mut f = vec![0; h.length() + 100];
            h.write(&a, &b, 3, 100, &mut f);
            let r = read(&f).unwrap();
            assert_eq!((r.header, r.source_port, r.destination_port), (h, 5201, 40000));
            assert_eq!(r.payload, h.length()..f.len());
        }
    }
}

#[test]
fn a_frame_cut_or_spoiled_is_read_and_judged() {
    let a = SocketAddress { mac: [0; 6], ip: [0; 4], port: 0 };
    let h = Header { flags: SYN, timestamps: Some((1, 2)), ..Header::default() };
    let mut f = vec![0; h.length()];
    h.write(&a, &a, 0, 0, &mut f);
    let sum = Sum::of(&f[TCP..]).checksum();
    f[TCP + 16..TCP + 18].copy_from_slice(&sum.to_be_bytes());
    let mut intact = 0;
    for cut in 0..=f.len() {
        for wrong in 0..=f.len() {
            let mut f = f[..cut].to_vec();
            if let Some(b) = f.get_mut(wrong) {
                *b ^= 0xff;
            }
            let Some(r) = read(&f) else { continue };
            if let Some(p) = f.get(r.payload.clone()) {
                let good = Verdict { ip: Check::Good, transport: Check::Good };
                assert_eq!(r.is_intact(&f, Sum::of(p)), verify(&f) == good);
                intact += u32::from(verify(&f) == good);
            }
        }
    }
    assert!(intact > 0);
}

#[test]
fn payload_repeats_by_the_stream_not_by_the_block() {
    for (offset, len) in [(0, 0), (0, 251), (250, BLOCK), (251, BLOCK + 1), (1 << 40, 0x1_0000)] {
        let want: Vec<u8> = (0..len as u64).map(|i| ((offset + i) % 251) as u8).collect();
        let mut got = vec![0xff; len];
        fill(offset, &mut got);
        assert_eq!(
            (&got, payload(offset, len).collect::<Vec<_>>().concat()),
            (&want, want.clone())
        );
        assert_eq!(payload_sum(offset, len).value(), Sum::of(&want).value());
        assert!(is_payload(offset, &got));
        if let Some(last) = got.last_mut() {
            *last ^= 1;
            assert!(!is_payload(offset, &got));
        }
    }
}
