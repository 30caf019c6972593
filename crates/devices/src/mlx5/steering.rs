//! Flow steering: tables that an incoming frame walks until it has found its TIRs.
//!
//! A table has room for `1 << log_size` entries. Groups share that room out: each
//! owns a range of indices and says by a mask which fields its entries compare. An
//! entry gives the values, and what becomes of a frame that has them: drop, count, on
//! to another table, to a TIR. Of several entries that match, the one with the lowest
//! index decides. Without one, the table's [`Miss`] does. "Promiscuous", "unicast",
//! "VLAN" are not known here: they are what the driver's entries say.
//!
//! Where the walk begins: at the root that was set (`SET_FLOW_TABLE_ROOT`), and
//! without one at the table with the lowest level, which is where a driver whose
//! device cannot change the root puts its first (fs_core.c `find_next_chained_ft`).
//!
//! Firmware asks for destinations of a higher level, so that a walk ends. Here a
//! walk ends after [`STEPS`] tables, whatever the driver has put together, and the
//! frame goes where it was sent until then.
//!
//! Inside a group all entries have the same mask, so they are kept in the order of
//! their masked values and found by bisection: 4096 VLANs cost twelve comparisons.
//!
//! Sources: linux/mlx5/mlx5_ifc.h (`flow_context`, `flow_table_context`, `fte_match_param`),
//! core/fs_core.c, fs_cmd.c. What is inside the silicon is not public. Not here: inner
//! headers and tunnel identifiers; a mask that asks for them is refused.

mod fields;
#[cfg(test)]
mod tests;

pub use fields::Fields;

use super::queues::Table as Objects;
use alloc::vec::Vec;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::steering::{MISC, NIC_RX, OUTER, PARAM, SET, action, criteria};

/// Tables that one frame visits at the most: as many as there are levels.
pub const STEPS: usize = 64;
/// TIRs that one frame is delivered to at the most (`log_max_destination`).
pub const COPIES: usize = 1 << LOG_COPIES;
/// log2 of [`COPIES`].
pub const LOG_COPIES: u8 = 3;
/// log2 of the largest table (`log_max_ft_size`).
pub const LOG_MAX_SIZE: u8 = 24;
/// Tables, groups, entries, counters at the most.
const TABLES: usize = 4096;
const GROUPS: usize = 16384;
const ENTRIES: usize = 1 << 16;
const COUNTERS: usize = 4096;

/// The fields that masks may ask for, as `ft_field_support` says it: outer addresses,
/// type, IP version, both tags, TTL, IP addresses, fragment, protocol, ECN, DSCP, ports,
/// TCP flags, and the source port.
pub const FIELD_SUPPORT: u32 = 0xffef_fe01;

/// What a table is created from (`flow_table_context`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// `table_type`; frames from the wire walk those of type [`NIC_RX`].
    pub kind: u8,
    /// Its level.
    pub level: u8,
    /// log2 of its entries.
    pub log_size: u8,
    /// What a frame does that no entry matches.
    pub miss: Miss,
}

/// What becomes of a frame that no entry matches (`table_miss_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The default: of received frames, dropped.
    Default,
    /// It goes on in this table (`table_miss_id`).
    Table(u32),
}

/// A bit pattern over the outer and miscellaneous sets of a match parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match([u64; 2 * SET / 8]);

impl Match {
    /// Nothing, or anything.
    pub const EMPTY: Match = Match([0; 2 * SET / 8]);

    /// From the sets' bytes.
    pub fn of(outer: &[u8; SET], misc: &[u8; SET]) -> Match {
        let mut m = Match::EMPTY;
        let bytes = outer.as_chunks().0.iter().chain(misc.as_chunks().0);
        for (word, bytes) in m.0.iter_mut().zip(bytes) {
            *word = u64::from_ne_bytes(*bytes);
        }
        m
    }

    /// From a whole match parameter, an entry's `match_value`; what is behind the
    /// two sets is not looked at, since no mask can ask for it.
    pub fn from_param(param: &[u8; PARAM]) -> Match {
        let (sets, _) = param.as_chunks::<SET>();
        Match::of(&sets[OUTER / SET], &sets[MISC / SET])
    }

    #[inline(always)]
    fn masked(&self, mask: &Match) -> Match {
        let mut m = *self;
        for (word, mask) in m.0.iter_mut().zip(&mask.0) {
            *word &= mask;
        }
        m
    }
}

/// Which fields a group compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria(Match);

impl Criteria {
    /// No field: every frame matches.
    pub const ANY: Criteria = Criteria(Match::EMPTY);

    /// From `match_criteria_enable` and `match_criteria`. [`CmdStatus::BadParam`]
    /// when a set that is enabled asks for a field that is not compared here.
    pub fn new(enable: u8, mask: &[u8; PARAM]) -> Result<Criteria, CmdStatus> {
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
pub struct Group {
    /// First index.
    pub start: u32,
    /// Last index.
    pub end: u32,
    /// The fields.
    pub criteria: Criteria,
}

/// Where an entry sends a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a TIR.
    Tir(u32),
    /// On to a flow table.
    Table(u32),
    /// Nowhere: it is counted there ([`action::COUNT`]).
    Counter(u32),
}

/// An entry (`flow_context`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The group it belongs to.
    pub group: u32,
    /// Told in the CQE.
    pub flow_tag: u32,
    /// [`action`] bits.
    pub action: u32,
    /// What the group's fields have to be.
    pub value: Match,
    /// For [`action::FWD_DEST`] and [`action::COUNT`].
    pub destinations: Vec<Destination>,
}

/// What an entry's modification changes (`modify_enable_mask`).
pub mod modify {
    /// The action.
    pub const ACTION: u32 = 1 << 0;
    /// The flow tag.
    pub const FLOW_TAG: u32 = 1 << 1;
    /// The tables and TIRs.
    pub const DESTINATIONS: u32 = 1 << 2;
    /// The counters.
    pub const COUNTERS: u32 = 1 << 3;
}

/// A flow counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounter {
    /// Frames.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    tirs: [(u32, u32); COPIES],
    copies: usize,
    /// The walk was cut short: it had visited [`STEPS`] tables.
    pub endless: bool,
}

impl Verdict {
    /// TIRs, each with the flow tag of the entry that named it, in the order they
    /// were found. Empty: dropped.
    pub fn tirs(&self) -> &[(u32, u32)] {
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
    /// In the order of their ranges.
    groups: Vec<InstalledGroup>,
}

#[derive(Debug)]
struct InstalledGroup {
    id: u32,
    group: Group,
    /// In the order of value, then index.
    entries: Vec<InstalledEntry>,
}

#[derive(Debug)]
struct InstalledEntry {
    value: Match,
    index: u32,
    flow_tag: u32,
    action: u32,
    destinations: Vec<Destination>,
}

/// All tables of a function.
#[derive(Debug)]
pub struct Steering {
    tables: Objects<Installed>,
    counters: Objects<FlowCounter>,
    next_group: u32,
    groups: usize,
    entries: usize,
    root: Option<u32>,
    /// Where the walk begins.
    first: Option<u32>,
}

impl Default for Steering {
    fn default() -> Steering {
        Steering::new()
    }
}

impl Steering {
    /// No tables: every frame is dropped.
    pub const fn new() -> Steering {
        Steering {
            tables: Objects::new(0x8000),
            counters: Objects::new(0x1),
            next_group: 1,
            groups: 0,
            entries: 0,
            root: None,
            first: None,
        }
    }

    // ---- commands ----

    /// `CREATE_FLOW_TABLE`: its number.
    pub fn create_table(&mut self, table: Table) -> Result<u32, CmdStatus> {
        if table.log_size > LOG_MAX_SIZE || usize::from(table.level) >= STEPS {
            return Err(CmdStatus::BadParam);
        }
        let n = self.tables.insert(Installed { table, groups: Vec::new() }, TABLES).ok_or(CmdStatus::NoResources)?;
        self.find_first();
        Ok(n)
    }

    /// `MODIFY_FLOW_TABLE`: another miss.
    pub fn modify_table(&mut self, table: u32, miss: Miss) -> Result<(), CmdStatus> {
        self.table(table)?.table.miss = miss;
        Ok(())
    }

    /// `DESTROY_FLOW_TABLE`; its groups have to be gone, and no entry and
    /// no other table may lead to it.
    pub fn destroy_table(&mut self, table: u32) -> Result<(), CmdStatus> {
        if !self.table(table)?.groups.is_empty() {
            return Err(CmdStatus::BadResourceState);
        }
        if self.names(Destination::Table(table)) {
            return Err(CmdStatus::BadResourceState);
        }
        self.tables.remove(table);
        if self.root == Some(table) {
            self.root = None;
        }
        self.find_first();
        Ok(())
    }

    /// `SET_FLOW_TABLE_ROOT`.
    pub fn set_root(&mut self, table: u32) -> Result<(), CmdStatus> {
        self.table(table)?;
        self.root = Some(table);
        self.find_first();
        Ok(())
    }

    /// `CREATE_FLOW_GROUP`: its number. Groups do not overlap.
    pub fn create_group(&mut self, table: u32, group: Group) -> Result<u32, CmdStatus> {
        let (id, full) = (self.next_group, self.groups >= GROUPS);
        let t = self.table(table)?;
        let fits = group.start <= group.end && group.end >> t.table.log_size == 0;
        let at = t.groups.partition_point(|g| g.group.end < group.start);
        if !fits || t.groups.get(at).is_some_and(|g| g.group.start <= group.end) {
            return Err(CmdStatus::BadParam);
        }
        if full {
            return Err(CmdStatus::NoResources);
        }
        t.groups.insert(at, InstalledGroup { id, group, entries: Vec::new() });
        self.groups += 1;
        self.next_group = ((self.next_group + 1) & 0xff_ffff).max(1);
        Ok(id)
    }

    /// `DESTROY_FLOW_GROUP`; its entries have to be gone.
    pub fn destroy_group(&mut self, table: u32, group: u32) -> Result<(), CmdStatus> {
        let t = self.table(table)?;
        let at = t.groups.iter().position(|g| g.id == group).ok_or(CmdStatus::BadResource)?;
        if !t.groups[at].entries.is_empty() {
            return Err(CmdStatus::BadResourceState);
        }
        t.groups.remove(at);
        self.groups -= 1;
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY` with op_mod 0: a new entry at `index`, or another in
    /// the place of the one there.
    pub fn set_entry(&mut self, table: u32, index: u32, e: Entry) -> Result<(), CmdStatus> {
        check(e.action, &e.destinations)?;
        let full = self.entries >= ENTRIES;
        let t = self.table(table)?;
        let g = t.groups.iter_mut().find(|g| g.id == e.group).ok_or(CmdStatus::BadResource)?;
        if !(g.group.start..=g.group.end).contains(&index) {
            return Err(CmdStatus::BadParam);
        }
        let old = g.entries.iter().position(|o| o.index == index);
        if old.is_none() && full {
            return Err(CmdStatus::NoResources);
        }
        if let Some(old) = old {
            g.entries.remove(old);
        }
        let Entry { flow_tag, action, destinations, .. } = e;
        let value = e.value.masked(&g.group.criteria.0);
        let at = g.entries.partition_point(|o| (o.value, o.index) < (value, index));
        g.entries.insert(at, InstalledEntry { value, index, flow_tag, action, destinations });
        self.entries += usize::from(old.is_none());
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY` with op_mod 1: of the entry at `index`, what `what`
    /// names ([`modify`]) becomes as in `e`. Value and group stay.
    pub fn modify_entry(&mut self, table: u32, index: u32, what: u32, e: Entry) -> Result<(), CmdStatus> {
        let old = self
            .table(table)?
            .groups
            .iter_mut()
            .find_map(|g| g.entries.iter_mut().find(|o| o.index == index))
            .ok_or(CmdStatus::BadResource)?;
        let counts = |d: &Destination| matches!(d, Destination::Counter(_));
        let mut destinations: Vec<Destination> = Vec::with_capacity(old.destinations.len() + e.destinations.len());
        let from = |modified| if what & modified != 0 { &e.destinations } else { &old.destinations };
        destinations.extend(from(modify::DESTINATIONS).iter().filter(|d| !counts(d)));
        destinations.extend(from(modify::COUNTERS).iter().filter(|d| counts(d)));
        let action = if what & modify::ACTION != 0 { e.action } else { old.action };
        check(action, &destinations)?;
        old.action = action;
        old.destinations = destinations;
        if what & modify::FLOW_TAG != 0 {
            old.flow_tag = e.flow_tag;
        }
        Ok(())
    }

    /// `DELETE_FLOW_TABLE_ENTRY`.
    pub fn delete_entry(&mut self, table: u32, index: u32) -> Result<(), CmdStatus> {
        let t = self.table(table)?;
        for g in &mut t.groups {
            if let Some(at) = g.entries.iter().position(|e| e.index == index) {
                g.entries.remove(at);
                self.entries -= 1;
                return Ok(());
            }
        }
        Err(CmdStatus::BadResource)
    }

    /// `ALLOC_FLOW_COUNTER`.
    pub fn alloc_counter(&mut self) -> Result<u32, CmdStatus> {
        self.counters.insert(FlowCounter::default(), COUNTERS).ok_or(CmdStatus::NoResources)
    }

    /// `DEALLOC_FLOW_COUNTER`.
    pub fn dealloc_counter(&mut self, n: u32) -> Result<(), CmdStatus> {
        self.counters.remove(n).map(|_| ()).ok_or(CmdStatus::BadResource)
    }

    /// `QUERY_FLOW_COUNTER`; with `clear`, it begins again at zero.
    pub fn counter(&mut self, n: u32, clear: bool) -> Result<FlowCounter, CmdStatus> {
        let counter = self.counters.get_mut(n).ok_or(CmdStatus::BadResource)?;
        let was = *counter;
        if clear {
            *counter = FlowCounter::default();
        }
        Ok(was)
    }

    /// Whether there is such a table.
    pub fn has_table(&self, n: u32) -> bool {
        self.tables.get(n).is_some()
    }

    /// Whether an entry, or a table's miss, leads there.
    pub fn names(&self, to: Destination) -> bool {
        self.tables.iter().any(|(_, t)| {
            let miss = matches!((t.table.miss, to), (Miss::Table(a), Destination::Table(b)) if a == b);
            miss || t.groups.iter().any(|g| g.entries.iter().any(|e| e.destinations.contains(&to)))
        })
    }

    /// `QUERY_FLOW_TABLE_ENTRY`: the entry at `index`, its value as the group compares it.
    pub fn entry(&self, table: u32, index: u32) -> Option<Entry> {
        let groups = &self.tables.get(table)?.groups;
        groups.iter().find_map(|g| {
            let e = g.entries.iter().find(|e| e.index == index)?;
            let destinations = e.destinations.clone();
            Some(Entry { group: g.id, flow_tag: e.flow_tag, action: e.action, value: e.value, destinations })
        })
    }

    fn table(&mut self, n: u32) -> Result<&mut Installed, CmdStatus> {
        self.tables.get_mut(n).ok_or(CmdStatus::BadResource)
    }

    fn find_first(&mut self) {
        let lowest = self.tables.iter().filter(|(_, t)| t.table.kind == NIC_RX).min_by_key(|(_, t)| t.table.level);
        self.first = self.root.or(lowest.map(|(n, _)| n));
    }

    // ---- frames ----

    /// Walks a frame of `bytes` bytes through the tables.
    pub fn classify(&mut self, f: &Fields, bytes: usize) -> Verdict {
        let key = Match::of(f.outer_bytes(), f.misc_bytes());
        let mut verdict = Verdict { tirs: [(0, 0); COPIES], copies: 0, endless: false };
        let mut walk = Walk { tables: [0; STEPS], planned: 0, cut: false };
        if let Some(first) = self.first {
            walk.plan(first);
        }
        let mut step = 0;
        while step < walk.planned {
            let table = self.tables.get(walk.tables[step]);
            step += 1;
            let Some(t) = table else { continue };
            let entry = t.groups.iter().find_map(|g| g.find(&key));
            let Some(e) = entry.filter(|e| e.action & action::ALLOW == 0) else {
                // No entry decides, or it says "let it pass".
                if let Miss::Table(next) = t.table.miss {
                    walk.plan(next);
                }
                if let Some(e) = entry {
                    e.count(&mut self.counters, bytes);
                }
                continue;
            };
            e.count(&mut self.counters, bytes);
            if e.action & action::FWD_DEST == 0 {
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
        verdict.endless = walk.cut;
        verdict
    }
}

/// The tables that a frame visits, in their order, those to come among them: so
/// what bounds the one bounds the other.
struct Walk {
    tables: [u32; STEPS],
    planned: usize,
    cut: bool,
}

impl Walk {
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

impl InstalledEntry {
    fn count(&self, counters: &mut Objects<FlowCounter>, bytes: usize) {
        if self.action & action::COUNT == 0 {
            return;
        }
        for d in &self.destinations {
            if let Destination::Counter(n) = *d
                && let Some(c) = counters.get_mut(n)
            {
                c.packets += 1;
                c.bytes += bytes as u64;
            }
        }
    }
}

impl InstalledGroup {
    /// The entry with these fields, the first of several.
    #[inline]
    fn find(&self, key: &Match) -> Option<&InstalledEntry> {
        let key = key.masked(&self.group.criteria.0);
        let at = self.entries.partition_point(|e| e.value < key);
        self.entries.get(at).filter(|e| e.value == key)
    }
}

/// Whether an action makes sense, and has what it needs.
fn check(action: u32, destinations: &[Destination]) -> Result<(), CmdStatus> {
    let known = action::ALLOW | action::DROP | action::FWD_DEST | action::COUNT;
    let both = action::DROP | action::FWD_DEST;
    let somewhere = destinations.iter().filter(|d| !matches!(d, Destination::Counter(_))).count();
    let counters = destinations.len() - somewhere;
    let sane = action & !known == 0
        && action & known != 0
        && action & both != both
        && (action & action::FWD_DEST == 0 || somewhere > 0)
        && (action & action::COUNT == 0 || counters > 0);
    if sane && somewhere <= COPIES && counters <= COPIES { Ok(()) } else { Err(CmdStatus::BadParam) }
}
