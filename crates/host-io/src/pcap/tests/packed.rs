use super::*;
use flate2::{Compression, write::GzEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A header and frames of many lengths.
fn plain() -> Vec<u8> {
    let records = (60..1500).map(|n| LITTLE.record(n as u32, 0, &frame(n)));
    [LITTLE.pcap(0xa1b2_c3d4, 1)].into_iter().chain(records).collect::<Vec<_>>().concat()
}

#[test]
fn compressed_files_are_read() {
    let plain = plain();
    let (first, second) = plain.split_at(100_000);
    let whole = read_from("x.cap", &plain[..]).unwrap();
    let skipped = [0x184d_2a50_u32.to_le_bytes(), 3_u32.to_le_bytes()].concat();
    for (packing, name) in [
        (gzip(&plain), "gzip"),
        ([gzip(first), gzip(second)].concat(), "gzip"),
        (zstd(&plain), "zstd"),
        ([zstd(first), skipped, vec![1, 2, 3], zstd(second)].concat(), "zstd"),
    ] {
        let c = read_from("x.cap", &packing[..]).unwrap();
        assert_eq!((&c.bytes, &c.frames), (&whole.bytes, &whole.frames));
        assert_eq!(c.format.to_string(), format!("{name}, pcap, microseconds"));
        assert_eq!(c.cut_short, None);
    }
}

#[test]
fn a_compressed_file_that_is_cut_short_gives_what_it_holds() {
    let plain = plain();
    let whole = read_from("x.cap", &plain[..]).unwrap();
    let (first, second) = plain.split_at(plain.len() / 4);
    for parts in [[gzip(first), gzip(second)], [zstd(first), zstd(second)]] {
        let packed = parts.concat();
        for n in (parts[0].len() + 1..packed.len()).step_by(packed.len() / 50) {
            let c = read_from("x.cap", &packed[..n]).unwrap_or_else(|e| panic!("cut at {n}: {e}"));
            assert!(c.cut_short.is_some() && !c.frames.is_empty(), "cut at {n}");
            assert_eq!(c.frames, whole.frames[..c.frames.len()], "cut at {n}");
        }
    }
    for magic in [&gzip(&plain)[..12], &zstd(&plain)[..6]] {
        let e = read_from("x.cap", magic).unwrap_err();
        assert!(matches!(e.why, Fault::Truncated { .. }), "{e}");
    }
}

#[test]
fn a_damaged_compressed_file_is_refused() {
    for mut packed in [gzip(&plain()), zstd(&plain())] {
        let checksum = packed.len() - 5;
        packed[checksum] ^= 1;
        let e = read_from("x.cap", &packed[..]).unwrap_err();
        assert!(matches!(e.why, Fault::Io(_)), "{e}");
    }
}
