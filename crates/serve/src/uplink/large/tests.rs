use super::*;
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::prepare_gso;

/// A TCP segment whose checksum is not there yet.
fn large(payload: usize) -> (Vec<u8>, VnetHeader) {
    let mut f = vec![0; 54 + payload];
    f[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    f[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    f[22..24].copy_from_slice(&[64, 6]);
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    (f[46], f[47]) = (0x50, 0x10);
    for (i, b) in f[54..].iter_mut().enumerate() {
        *b = i as u8;
    }
    let todo = prepare_gso(&mut f, 1448).unwrap();
    let h = header(&todo, &f);
    (f, h)
}

#[test]
fn a_large_send_of_the_kernels_is_cut_and_merges_back_to_the_same() {
    let (whole, h) = large(10_000);
    assert_eq!(
        (h.gso_type, h.gso_size.get(), h.csum_start.get(), h.csum_offset.get()),
        (1, 1448, 34, 16)
    );
    let mut frames = Frames::default();
    super::frames(&h, &mut whole.clone(), &mut frames).unwrap();
    assert_eq!(frames.ends.len(), 7);
    let mut out = vec![0; LARGEST];
    let mut merge = Merge::start(&mut out, frames.get(0).unwrap()).unwrap();
    for n in 0..7 {
        let f = frames.get(n).unwrap();
        assert_eq!((verify(f).transport, is_tcp(f)), (Check::Good, true));
        assert!(n == 0 || merge.add(f));
    }
    let (len, todo) = merge.finish();
    let again = header(&todo, &out[..len]);
    assert_eq!(again, h);
    // The identification and the IPv4 checksum are the first's: all else is as it was.
    assert_eq!((&out[..24], &out[26..len]), (&whole[..24], &whole[26..]));
}

#[test]
fn a_large_send_that_cannot_be_cut_is_refused() {
    let (whole, h) = large(10_000);
    assert!(Large::new(&h, &whole).is_some());
    assert!(Large::new(&VnetHeader { gso_size: 0.into(), ..h }, &whole).is_none());
    assert!(Large::new(&VnetHeader { gso_type: VnetHeader::GSO_UDP_L4, ..h }, &whole).is_none());
    assert!(Large::new(&h, &whole[..20]).is_none());
}

#[test]
fn a_large_send_of_tiny_segments_is_cut_in_parts() {
    let (whole, h) = large(10_000);
    let mut send = Large::new(&VnetHeader { gso_size: 1.into(), ..h }, &whole).unwrap();
    let (mut payload, mut parts) = (Vec::new(), 0);
    loop {
        let mut part = Frames::default();
        let more = send.cut(&whole, &mut part);
        assert!(part.ends.len() <= SEGMENTS);
        payload.extend((0..).map_while(|n| part.get(n).map(|f| f[54])));
        parts += 1;
        if !more {
            break;
        }
    }
    assert_eq!((parts, payload), (10_000usize.div_ceil(SEGMENTS), whole[54..].to_vec()));
}

#[test]
fn headers_that_lie_are_refused_or_lose_nothing() {
    let numbers = [0, 1, 13, 14, 33, 34, 53, 54, 55, 1447, 1448, 9999, 10_054, 32_768, 65_535];
    let frames_of = |header: &VnetHeader, bytes: &[u8]| {
        let mut all = Frames::default();
        let taken = frames(header, &mut bytes.to_vec(), &mut all).is_some();
        assert!(taken || all.ends.is_empty(), "{header:?}: some of a refused send");
        taken.then(|| (0..).map_while(|n| all.get(n).map(<[u8]>::len)).collect::<Vec<_>>())
    };
    let (whole, good) = large(10_000);
    let mut cut = [0; 3];
    for bytes in [&whole[..], &whole[..1514], &whole[..60], &whole[..54], &whole[..14], &[0]] {
        for (gso_type, flags) in
            (0..9).chain(0x80..0x89).chain([255]).flat_map(|t| [0, 1, 2, 255].map(|f| (t, f)))
        {
            for n in numbers {
                let n = n.into();
                for h in [
                    VnetHeader { gso_type, flags, gso_size: n, ..good },
                    VnetHeader { gso_type, flags, hdr_len: n, ..good },
                    VnetHeader { gso_type, flags, csum_start: n, ..good },
                    VnetHeader { gso_type, flags, csum_offset: n, ..good },
                    VnetHeader { gso_type, flags, csum_start: n, csum_offset: n, ..good },
                ] {
                    let Some(lengths) = frames_of(&h, bytes) else {
                        cut[0] += 1;
                        continue;
                    };
                    // A segment has a header of its own; nothing else is there twice.
                    let headers = 54 * (lengths.len() - 1);
                    assert_eq!(lengths.iter().sum::<usize>(), bytes.len() + headers, "{h:?}");
                    assert!(lengths.iter().all(|l| *l <= bytes.len()), "{h:?}");
                    cut[1 + usize::from(lengths.len() > 1)] += 1;
                }
            }
        }
    }
    assert!(cut.iter().all(|n| *n > 1000), "refused, whole, cut: {cut:?}");
}
