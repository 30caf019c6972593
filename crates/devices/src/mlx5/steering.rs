//! Flow steering: tables that an incoming frame walks until it has found its TIRs.
//!
//! Groups share a table's indices and say by a mask which fields their entries compare. Of the
//! entries that match, the one with the lowest index decides; without one, the table's [`Miss`].
//! The walk begins at the root, or without one at the table of the lowest level. A table leads to
//! tables of higher levels only, so that no walk is a circle. One that branches ends after
//! [`STEPS`] tables or [`COMPARES`] masks. All groups of a mask are looked up at once, in a tree by
//! value. Masks of inner headers and tunnel identifiers are refused.
//!
//! Sources: linux/mlx5/mlx5_ifc.h, core/fs_core.c, fs_cmd.c.

mod commands;
mod fields;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use fields::Fields;

use super::{Answer, queues::Table as Objects};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use doorbell_layout::mlx5::steering::{MISC, OUTER, PARAM, SET, criteria};
use doorbell_layout::mlx5::{CmdStatus, command::flow_action};

/// Tables that one frame visits at the most: as many as there are levels.
pub(crate) const STEPS: usize = 64;
/// Masks that one frame is compared under at the most, in all tables together.
pub(crate) const COMPARES: u32 = 256;
/// TIRs that one frame is delivered to at the most (`log_max_destination`).
pub(crate) const COPIES: usize = 1 << LOG_COPIES;
pub(crate) const LOG_COPIES: u8 = 3;
/// log2 of the largest table (`log_max_ft_size`).
pub(crate) const LOG_MAX_SIZE: u8 = 24;

/// The fields that masks may ask for, as `ft_field_support` says it: outer addresses,
/// type, IP version, both tags, TTL, IP addresses, fragment, protocol, ECN, DSCP, ports,
/// TCP flags, and the source port.
pub(crate) const FIELD_SUPPORT: u32 = 0xffef_fe01;

/// Context of a table (`flow_table_context`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// `table_type`; frames from the wire walk those of type
    /// [`NIC_RX`](doorbell_layout::mlx5::steering::NIC_RX).
    pub(crate) kind: u8,
    pub(crate) level: u8,
    /// log2 of its entries.
    pub(crate) log_size: u8,
    /// Action for frames that no entry matches.
    pub(crate) miss: Miss,
}

/// Action for frames that no entry matches (`table_miss_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// The default: of received frames, dropped.
    Default,
    /// It goes on in this table (`table_miss_id`).
    Table(u32),
}

/// A bit pattern over the outer and miscellaneous sets of a match parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Match([u64; 2 * SET / 8]);

impl Match {
    /// The empty value: it compares no field.
    pub(crate) const EMPTY: Match = Match([0; 2 * SET / 8]);

    pub(crate) fn of(outer: &[u8; SET], misc: &[u8; SET]) -> Match {
        let mut m = Match::EMPTY;
        let bytes = outer.as_chunks().0.iter().chain(misc.as_chunks().0);
        for (word, bytes) in m.0.iter_mut().zip(bytes) {
            *word = u64::from_ne_bytes(*bytes);
        }
        m
    }

    /// The fields of a frame.
    pub(crate) fn of_fields(f: &Fields) -> Match {
        Match::of(f.outer_bytes(), f.misc_bytes())
    }

    /// From a whole match parameter, an entry's `match_value`; what is behind the
    /// two sets is not looked at, since no mask can ask for it.
    pub(crate) fn from_param(param: &[u8; PARAM]) -> Match {
        let (sets, _) = param.as_chunks::<SET>();
        Match::of(&sets[OUTER / SET], &sets[MISC / SET])
    }

    /// Returns its 64-bit words.
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    /// Returns the bits that one of the two has.
    pub(crate) fn or(&self, other: &Match) -> Match {
        let mut m = *self;
        for (word, other) in m.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
        m
    }

    #[inline(always)]
    pub(crate) fn masked(&self, mask: &Match) -> Match {
        let mut m = *self;
        for (word, mask) in m.0.iter_mut().zip(&mask.0) {
            *word &= mask;
        }
        m
    }
}

/// Fields that a group compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Criteria(Match);

impl Criteria {
    /// From `match_criteria_enable` and `match_criteria`. [`CmdStatus::BadParam`]
    /// when a set that is enabled asks for a field that is not compared here.
    pub(crate) fn new(enable: u8, mask: &[u8; PARAM]) -> Answer<Criteria> {
        let mut outer = [0; SET];
        let mut misc = [0; SET];
        let (sets, _) = mask.as_chunks::<SET>();
        for (i, set) in sets.iter().enumerate() {
            if enable >> i & 1 == 0 {
                continue;
            }
            let (into, allowed) = match 1 << i {
                criteria::OUTER => (&mut outer, &fields::OUTER_FIELDS),
                criteria::MISC => (&mut misc, &fields::MISC_FIELDS),
                _ if set.iter().all(|b| *b == 0) => continue,
                _ => return Err(CmdStatus::BadParam),
            };
            if set.iter().zip(allowed).any(|(asked, allowed)| asked & !allowed != 0) {
                return Err(CmdStatus::BadParam);
            }
            *into = *set;
        }
        Ok(Criteria(Match::of(&outer, &misc)))
    }
}

/// A range of a table's indices whose entries compare the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// First index.
    pub(crate) start: u32,
    /// Last index.
    pub(crate) end: u32,
    pub(crate) criteria: Criteria,
}

/// Destination of an entry's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Destination {
    Tir(u32),
    Table(u32),
    /// A counter ([`flow_action::COUNT`]), which no command can allocate and nothing counts in.
    Counter(u32),
}

impl Destination {
    pub(crate) fn is_counter(&self) -> bool {
        matches!(self, Destination::Counter(_))
    }
}

/// An entry (`flow_context`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) group: u32,
    /// Told in the CQE.
    pub(crate) flow_tag: u32,
    /// [`flow_action`] bits.
    pub(crate) action: u32,
    /// Required values of the group's fields; of an installed entry, of these alone.
    pub(crate) value: Match,
    /// For [`flow_action::FORWARD`] and [`flow_action::COUNT`].
    pub(crate) destinations: Vec<Destination>,
}

/// Result of the walk for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    tirs: [(u32, u32); COPIES],
    copies: usize,
    /// Masks that it was compared under.
    pub(crate) compares: u32,
    /// The walk was cut short: it had visited [`STEPS`] tables, or compared [`COMPARES`] masks.
    pub(crate) endless: bool,
}

impl Verdict {
    /// TIRs, each with the flow tag of the entry that named it, in the order they
    /// were found. Empty: dropped.
    pub(crate) fn tirs(&self) -> &[(u32, u32)] {
        &self.tirs[..self.copies]
    }

    fn add(&mut self, tir: u32, flow_tag: u32) {
        if let Some(place) = self.tirs.get_mut(self.copies) {
            *place = (tir, flow_tag);
            self.copies += 1;
        }
    }
}

#[derive(Debug)]
struct Installed {
    table: Table,
    /// By number, each with the count of its entries.
    groups: BTreeMap<u32, (Group, u32)>,
    /// Numbers of the groups, by their first indices.
    starts: BTreeMap<u32, u32>,
    /// The groups' masks, by the first index of all groups of each.
    masks: Vec<Masked>,
    /// Values of the entries, by index.
    values: BTreeMap<u32, Match>,
}

/// All groups of a table that compare the same fields.
#[derive(Debug)]
struct Masked {
    mask: Match,
    /// Their first indices.
    starts: BTreeSet<u32>,
    /// By value, then index.
    entries: BTreeMap<(Match, u32), Entry>,
}

/// Tables from before a reset. To let go of their entries, tens of thousands at the most, takes
/// milliseconds. So each command lets some go; it takes a command to add one.
#[derive(Debug, Default)]
pub(crate) struct Former(Vec<Installed>);

/// All tables of a function.
#[derive(Debug)]
pub(crate) struct Steering {
    tables: Objects<Installed>,
    /// Tables of received frames, by level.
    receiving: BTreeSet<(u8, u32)>,
    /// Times that an entry, or a table's miss, leads there.
    uses: BTreeMap<Destination, u32>,
    next_group: u32,
    groups: usize,
    entries: usize,
    root: Option<u32>,
    /// First table of the walk.
    first: Option<u32>,
    /// Bits that the mask of a group asks for, or did.
    asked: Match,
}

impl Default for Steering {
    fn default() -> Steering {
        Steering::new()
    }
}

impl Steering {
    /// No tables: every frame is dropped.
    pub(crate) const fn new() -> Steering {
        Steering {
            tables: Objects::new(0x8000),
            receiving: BTreeSet::new(),
            uses: BTreeMap::new(),
            next_group: 1,
            groups: 0,
            entries: 0,
            root: None,
            first: None,
            asked: Match::EMPTY,
        }
    }

    /// Returns the bits of a frame's fields that its walk depends on, at the most.
    pub(crate) fn asked(&self) -> &Match {
        &self.asked
    }

    /// Walks a frame through the tables.
    pub(crate) fn classify(&self, f: &Fields) -> Verdict {
        let key = Match::of_fields(f);
        let (tirs, copies) = ([(0, 0); COPIES], 0);
        let mut verdict = Verdict { tirs, copies, compares: 0, endless: false };
        let mut walk = Walk { tables: [0; STEPS], planned: 0, compares: 0, cut: false };
        if let Some(first) = self.first {
            walk.plan(first);
        }
        let mut step = 0;
        while step < walk.planned {
            let table = self.tables.get(walk.tables[step]);
            step += 1;
            let Some(t) = table else { continue };
            let entry = walk.find(t, &key);
            let Some(e) = entry.filter(|e| e.action & flow_action::ALLOW == 0) else {
                // No entry decides, or it says "let it pass".
                if let Miss::Table(next) = t.table.miss {
                    walk.plan(next);
                }
                continue;
            };
            if e.action & flow_action::FORWARD == 0 {
                continue;
            }
            for d in &e.destinations {
                match *d {
                    Destination::Table(next) => walk.plan(next),
                    Destination::Tir(tir) => verdict.add(tir, e.flow_tag),
                    Destination::Counter(_) => {}
                }
            }
        }
        (verdict.compares, verdict.endless) = (walk.compares, walk.cut);
        verdict
    }
}

/// The tables that a frame visits, in their order, those to come among them: so
/// what bounds the one bounds the other.
struct Walk {
    tables: [u32; STEPS],
    planned: usize,
    compares: u32,
    cut: bool,
}

impl Walk {
    /// Finds the entry of a table that decides.
    #[inline]
    fn find<'a>(&mut self, t: &'a Installed, key: &Match) -> Option<&'a Entry> {
        let mut found: Option<(u32, &Entry)> = None;
        for m in &t.masks {
            if found.is_some_and(|f| f.0 < m.first()) {
                break;
            }
            if self.compares == COMPARES {
                self.cut = true;
                break;
            }
            self.compares += 1;
            if let Some(one) = m.find(key).filter(|one| found.is_none_or(|f| one.0 < f.0)) {
                found = Some(one);
            }
        }
        found.map(|f| f.1)
    }

    fn plan(&mut self, table: u32) {
        match self.tables.get_mut(self.planned) {
            Some(place) => {
                *place = table;
                self.planned += 1;
            }
            None => self.cut = true,
        }
    }
}

impl Masked {
    /// Returns the lowest index of all groups.
    #[inline]
    fn first(&self) -> u32 {
        self.starts.first().copied().unwrap_or(u32::MAX)
    }

    /// Returns the entry with these fields and its index, the first of several.
    #[inline]
    fn find(&self, key: &Match) -> Option<(u32, &Entry)> {
        let key = key.masked(&self.mask);
        let (at, entry) = match self.entries.len() {
            // The walk down the tree compares twice.
            1 => self.entries.first_key_value()?,
            _ => self.entries.range((key, 0)..).next()?,
        };
        (at.0 == key).then_some((at.1, entry))
    }
}
