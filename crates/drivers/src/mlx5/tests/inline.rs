//! Headers that the queue's inline mode asks for.

use super::*;

#[test]
fn the_inlined_header_ends_where_the_mode_says() {
    let ip4 = |words: u8, protocol: u8| {
        let mut ip = vec![0; usize::from(words) * 4];
        ip[0] = 0x40 | words;
        ip[9] = protocol;
        ip
    };
    let ip6 = |protocol: u8| {
        let mut ip = vec![0; 40];
        ip[0] = 0x60;
        ip[6] = protocol;
        ip
    };
    let tcp = |words: u8| {
        let mut tcp = vec![0; usize::from(words) * 4];
        tcp[12] = words << 4;
        tcp
    };
    let cases = [
        (frame(0, 0x0800, &ip4(5, 17), &[0; 8], 100), [18, 34, 42]),
        (frame(0, 0x0800, &ip4(5, 17), &[0; 8], 4), [18, 34, 42]),
        (frame(0, 0x0800, &ip4(5, 17), &[0; 8], 0), [18, 34, 42]),
        (frame(0, 0x0800, &ip4(5, 6), &tcp(5), 100), [18, 34, 54]),
        (frame(0, 0x0800, &ip4(7, 6), &tcp(8), 100), [18, 42, 74]),
        (frame(0, 0x86dd, &ip6(17), &[0; 8], 30), [18, 54, 62]),
        (frame(0, 0x86dd, &ip6(6), &tcp(8), 30), [18, 54, 86]),
        (frame(1, 0x0800, &ip4(5, 17), &[0; 8], 60), [18, 38, 46]),
        (frame(2, 0x0800, &ip4(5, 17), &[0; 8], 60), [22, 42, 50]),
        (frame(0, 0x0806, &[1; 28], &[], 18), [18, 18, 18]),
    ];
    for (bytes, expected) in cases {
        for mode in 1..=3u8 {
            let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline: mode, ..CAPS });
            let p = d.packet(bytes.len() as u32);
            d.host.bytes_mut(&p.head.buf, 0..bytes.len() as u32, |b| b.copy_from_slice(&bytes));
            d.send(p, false);
            let wqe = d.announced().remove(0);
            let inlined = u16::from_be_bytes([wqe.bytes[28], wqe.bytes[29]]);
            assert_eq!(inlined, expected[usize::from(mode) - 1], "mode {mode}, {}", hex(&bytes));
            let n = usize::from(inlined);
            assert_eq!(wqe.bytes[30..30 + n], bytes[..n]);
            // The rest is one data segment, or none.
            let ds = 2 + (n - 2).div_ceil(16) + usize::from(bytes.len() > n);
            assert_eq!(wqe.ds as usize, ds);
        }
    }
}

#[test]
fn a_head_that_was_inlined_whole_is_not_mapped_and_comes_back() {
    let mut d = DriverHarness::new(Config::DEFAULT, Caps { min_inline: 1, ..CAPS });
    let p = d.packet(18);
    d.send(p, false);
    assert_eq!(d.host.maps, 0);
    let wqe = d.announced().remove(0);
    assert_eq!(wqe.ds, 3);
    d.complete(0, 0);
    d.poll();
    assert_eq!(d.returned.packets(), [0]);
    d.close();
}
