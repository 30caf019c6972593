//! Compressed captures: gzip (RFC 1952) and Zstandard (RFC 8878), of any number of members or
//! frames. A stream that ends within one is [`ErrorKind::UnexpectedEof`], and of the last Zstandard
//! frame only what is before its window comes out.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError::SkipFrame};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::error::Error;
use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

/// A stream of which the first bytes were read to see what it is.
type Whole<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

/// Returns the stream without its compression, and the compression's name if it has one.
pub(super) fn unpacked<'a>(
    mut from: impl Read + 'a,
) -> io::Result<(Box<dyn Read + 'a>, Option<&'static str>)> {
    let mut head = Vec::new();
    from.by_ref().take(4).read_to_end(&mut head)?;
    let magic: Option<[u8; 4]> = head.first_chunk().copied();
    let whole = BufReader::with_capacity(1 << 16, Cursor::new(head).chain(from));
    Ok(match magic {
        Some([0x1f, 0x8b, ..]) => (Box::new(MultiGzDecoder::new(whole)), Some("gzip")),
        Some([0x28, 0xb5, 0x2f, 0xfd]) => (
            Box::new(Zstd { from: whole, decoder: FrameDecoder::new(), within: false }),
            Some("zstd"),
        ),
        _ => (Box::new(whole), None),
    })
}

/// Zstandard frames, one after the other.
struct Zstd<R> {
    from: Whole<R>,
    decoder: FrameDecoder,
    /// The decoder has a frame that is not at its end.
    within: bool,
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            if self.within && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.from, one).map_err(decoding)?;
                continue;
            }
            let sums =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if std::mem::take(&mut self.within) && matches!(sums, (Some(a), Some(b)) if a != b) {
                return Err(io::Error::new(ErrorKind::InvalidData, "a checksum of zstd is wrong"));
            }
            if self.from.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.reset(&mut self.from) {
                Ok(()) => self.within = true,
                Err(FrameDecoderError::ReadFrameHeaderError(SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.from.by_ref().take(length), &mut io::sink())? < length {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(e) => return Err(decoding(e)),
            }
        }
    }
}

/// Returns the I/O error of a decoder: that of its stream if it is one.
fn decoding(e: FrameDecoderError) -> io::Error {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&e);
    while let Some(c) = cause {
        if let Some(io) = c.downcast_ref::<io::Error>() {
            return io::Error::new(io.kind(), io.to_string());
        }
        cause = c.source();
    }
    io::Error::new(ErrorKind::InvalidData, e.to_string())
}
