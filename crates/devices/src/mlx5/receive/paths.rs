//! The path of a frame: which queues it goes to, by the fields that decide it.
//!
//! Flow tables, TIRs and RQTs change by commands alone. So a path is walked once, and known until
//! they change; its price is that of the walk. What decides are the bits that a group compares,
//! those that are hashed, and the kinds of the headers.

use super::super::queues::Table as Objects;
use super::super::rss::{Dispatch, Hash, Rqt, Tir, hashed, select};
use super::super::steering::{COPIES, Fields, Match, Steering, Verdict};
use alloc::vec::Vec;
use core::ops::Deref;
use doorbell_packet::headers::{Ip, Transport};

/// log2 of the paths that are known at a time.
const KNOWN: u32 = 8;

/// Tables that decide a frame's path.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The flow tables.
    pub(crate) steering: Steering,
    pub(crate) tirs: Objects<Tir>,
    pub(crate) rqts: Objects<Rqt>,
}

/// Key of a path: fields, and the kinds of the headers.
type Key = (Match, Option<(Ip, Option<Transport>)>);

/// The path of all frames with the same key.
#[derive(Debug)]
pub(super) struct Path {
    key: Key,
    pub(super) verdict: Verdict,
    /// The queue of each TIR of the verdict, and the hash of the frame.
    pub(super) queues: [Option<(u32, Hash)>; COPIES],
}

/// The tables, and the paths that are known. To change a table is to forget them.
#[derive(Debug)]
pub(crate) struct Paths {
    tables: Tables,
    known: Vec<Option<Path>>,
    /// The bits of the fields that decide.
    decide: Match,
}

impl Paths {
    pub(super) fn new() -> Paths {
        let (tirs, rqts) = (Objects::new(0x2000), Objects::new(0x3000));
        let tables = Tables { steering: Steering::new(), tirs, rqts };
        Paths { tables, known: Vec::new(), decide: Match::EMPTY }
    }

    /// Returns the tables, to change them.
    pub(crate) fn change(&mut self) -> &mut Tables {
        self.known.clear();
        &mut self.tables
    }

    /// Returns the path of a frame with these fields.
    pub(super) fn find(&mut self, f: &Fields) -> &Path {
        if self.known.is_empty() {
            self.known.resize_with(1 << KNOWN, || None);
            self.decide = Match::of_fields(&hashed()).or(self.tables.steering.asked());
        }
        let fields = Match::of_fields(f).masked(&self.decide);
        let key = (fields, f.headers.map(|h| (h.ip, h.transport)));
        // Words that differ in the same bits must not make up for each other.
        let mixed = fields.words().iter().fold(0, |all: u64, word| {
            (all.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let at = (mixed >> (u64::BITS - KNOWN)) as usize;
        let slot = &mut self.known[at];
        if slot.as_ref().is_some_and(|path| path.key != key) {
            *slot = None;
        }
        slot.get_or_insert_with(|| {
            let (verdict, queues) = self.tables.walk(f);
            Path { key, verdict, queues }
        })
    }
}

impl Deref for Paths {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl Tables {
    /// Walks a frame through the tables. Returns the verdict, and for each of its TIRs the queue
    /// and the frame's hash.
    #[inline(never)]
    pub(super) fn walk(&self, f: &Fields) -> (Verdict, [Option<(u32, Hash)>; COPIES]) {
        let verdict = self.steering.classify(f);
        let mut queues = [None; COPIES];
        for (queue, (tirn, _)) in queues.iter_mut().zip(verdict.tirs()) {
            *queue = self.route(*tirn, f);
        }
        (verdict, queues)
    }

    /// Returns the queue that a TIR sends a frame to, and the frame's hash.
    fn route(&self, tirn: u32, f: &Fields) -> Option<(u32, Hash)> {
        let tir = self.tirs.get(tirn)?;
        let hash = select(tir, f);
        match tir.ctx.dispatch {
            Dispatch::Direct(rqn) => Some((rqn, hash)),
            Dispatch::Indirect(rqt) => {
                Some((self.rqts.get(rqt)?.queue(tir.ctx.function, hash)?, hash))
            }
        }
    }
}
