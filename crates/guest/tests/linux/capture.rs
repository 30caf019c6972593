//! Captures of a server, which may still be written.

use crate::host::OrFail;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// The block of pcapng that has a frame, and in it, behind type and length, the places of the
/// frame's length and of the frame.
const FRAME: u32 = 6;
const LENGTH: usize = 12;
const DATA: usize = 20;
/// Bytes of frames that are looked at.
const MOST: u64 = 20 << 20;

/// Calls `f` with the frames of a capture that begin from byte `since` on, until it returns false.
/// A block that is cut short is the end.
fn each_frame(path: &Path, since: u64, mut f: impl FnMut(u64, &[u8]) -> bool) {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).or_fail());
    let (mut at, mut head, mut block) = (0, [0; 8], Vec::new());
    while file.read_exact(&mut head).is_ok() {
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let (kind, length) = (word(&head), word(&head[4..]) as usize);
        block.resize(length.saturating_sub(8), 0);
        if file.read_exact(&mut block).is_err() {
            break;
        }
        if kind == FRAME && at >= since {
            let captured = word(&block[LENGTH..]) as usize;
            if !f(at, &block[DATA..][..captured]) {
                break;
            }
        }
        at += length as u64;
    }
}

/// Returns the number of frames in a capture.
pub(crate) fn frames(path: &Path) -> i64 {
    let mut count = 0;
    each_frame(path, 0, |_, _| {
        count += 1;
        true
    });
    count
}

/// Returns if a frame is a TCP segment of `source` with data, and if its checksums are right.
fn segment(frame: &[u8], source: [u8; 4]) -> Option<bool> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) =
        (&packet.net, &packet.transport)
    else {
        return None;
    };
    let head = ip.header();
    if head.source() != source || tcp.payload().is_empty() {
        return None;
    }
    let sum = tcp.calc_checksum_ipv4(source, head.destination()).ok()?;
    // Linux's skb_checksum_help writes 0xffff where the sum gives 0, one segment in 65,536: a
    // receiver accepts it (RFC 1071).
    let right = tcp.checksum() == sum || (tcp.checksum() == 0xffff && sum == 0);
    Some(right && head.to_header().calc_header_checksum() == head.header_checksum())
}

/// Fails unless a capture has TCP segments from `source`, all with right checksums; of what is
/// there from byte `since` on. Returns how many.
pub(crate) fn tcp_checksums(path: &Path, source: [u8; 4], since: u64) -> usize {
    let (mut all, mut right) = (0, 0);
    each_frame(path, since, |at, frame| {
        if let Some(is_right) = segment(frame, source) {
            all += 1;
            right += usize::from(is_right);
        }
        at < since + MOST
    });
    assert!(all > 100 && right == all, "{all} segments from {source:?}, of which {right} right");
    right
}
