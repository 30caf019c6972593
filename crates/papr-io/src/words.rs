//! The words of a call area: atomics in memory that two processes share; or, with `--cfg loom`,
//! loom's, whose orders a model tries all.

use doorbell_host_io::shared::{Window, cannot_shrink};
use std::{fs::File, io};

/// Maps a memory file that is sealed against shrinking.
pub(super) fn open_sealed(file: &File, len: usize) -> io::Result<Window> {
    if !cannot_shrink(file) {
        let why = "shared memory that is not sealed against shrinking";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Window::map(file, 0, len, true)
}

#[cfg(not(loom))]
mod shared {
    use super::{File, Window, io, open_sealed};
    use rustix::thread::futex::{self, Flags, Timespec};
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
    use std::time::Duration;

    #[derive(Debug)]
    pub(crate) struct Words(Window);

    impl Words {
        pub(crate) fn map(file: &File, len: usize) -> io::Result<Words> {
            Ok(Words(open_sealed(file, len)?))
        }

        /// Returns true once an access has found a page without memory.
        pub(crate) fn lost(&self) -> bool {
            self.0.lost()
        }

        pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
            self.0.word(at)
        }

        pub(crate) fn half_word(&self, at: usize) -> &AtomicU32 {
            self.0.half_word(at)
        }

        pub(crate) fn half_words(
            &self,
            at: usize,
            stride: usize,
            n: usize,
        ) -> impl Iterator<Item = &AtomicU32> {
            self.0.half_words(at, stride, n)
        }
    }

    /// Sleeps while the word has this value, at most so long. It may end for any reason.
    pub(crate) fn sleep(word: &AtomicU32, value: u32, limit: Duration) {
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
        let _ = futex::wait(word, Flags::empty(), value, Some(&limit));
    }

    /// Wakes who sleeps on a word.
    pub(crate) fn wake(word: &AtomicU32) {
        let _ = futex::wake(word, Flags::empty(), 1);
    }
}

#[cfg(loom)]
mod shared {
    use super::{File, io};
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[derive(Debug)]
    pub(crate) struct Words {
        words: BTreeMap<usize, AtomicU64>,
        half_words: BTreeMap<usize, AtomicU32>,
    }

    impl Words {
        /// Creates the words of a model, all zero.
        pub(crate) fn of(words: &[usize], half_words: &[usize]) -> Words {
            Words {
                words: words.iter().map(|at| (*at, AtomicU64::new(0))).collect(),
                half_words: half_words.iter().map(|at| (*at, AtomicU32::new(0))).collect(),
            }
        }

        pub(crate) fn map(_: &File, _: usize) -> io::Result<Words> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn lost(&self) -> bool {
            false
        }

        pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
            &self.words[&at]
        }

        pub(crate) fn half_word(&self, at: usize) -> &AtomicU32 {
            &self.half_words[&at]
        }

        pub(crate) fn half_words(
            &self,
            at: usize,
            stride: usize,
            n: usize,
        ) -> impl Iterator<Item = &AtomicU32> {
            (0..n).map(move |i| self.half_word(at + i * stride))
        }
    }

    pub(crate) fn sleep(_: &AtomicU32, _: u32, _: Duration) {
        loom::thread::yield_now();
    }

    pub(crate) fn wake(_: &AtomicU32) {}
}

pub(crate) use shared::{AtomicU32, AtomicU64, Words, fence, sleep, wake};
