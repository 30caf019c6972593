//! Tables, groups and entries as the commands make and change them. Checks and
//! statuses are the firmware's.

use super::{
    Answer, COPIES, Destination, Entry, Group, Installed, InstalledEntry, InstalledGroup,
    LOG_MAX_SIZE, Miss, STEPS, Steering, Table,
};
use alloc::vec::Vec;
use doorbell_hal::fail_if;
use doorbell_layout::mlx5::command::{flow_action, modify_fte};
use doorbell_layout::mlx5::{CmdStatus, steering::NIC_RX};

/// Tables, groups, entries at the most.
const TABLES: usize = 4096;
const GROUPS: usize = 16384;
const ENTRIES: usize = 1 << 16;

impl Steering {
    /// `CREATE_FLOW_TABLE`: its number.
    pub(crate) fn create_table(&mut self, table: Table) -> Answer<u32> {
        if table.log_size > LOG_MAX_SIZE || usize::from(table.level) >= STEPS {
            return Err(CmdStatus::BadParam);
        }
        let n = self.tables.insert(Installed { table, groups: Vec::new() }, TABLES)?;
        self.find_first();
        Ok(n)
    }

    /// `MODIFY_FLOW_TABLE`: another miss.
    pub(crate) fn modify_table(&mut self, table: u32, miss: Miss) -> Answer {
        self.table(table)?.table.miss = miss;
        Ok(())
    }

    /// `DESTROY_FLOW_TABLE`; its groups have to be gone, and no entry and
    /// no other table may lead to it.
    pub(crate) fn destroy_table(&mut self, table: u32) -> Answer {
        let used = !self.table(table)?.groups.is_empty() || self.names(Destination::Table(table));
        self.tables.destroy(table, used)?;
        if self.root == Some(table) {
            self.root = None;
        }
        self.find_first();
        Ok(())
    }

    pub(crate) fn set_root(&mut self, table: u32) -> Answer {
        self.table(table)?;
        self.root = Some(table);
        self.find_first();
        Ok(())
    }

    /// `CREATE_FLOW_GROUP`: its number. Groups do not overlap.
    pub(crate) fn create_group(&mut self, table: u32, group: Group) -> Answer<u32> {
        let (id, full) = (self.next_group, self.groups >= GROUPS);
        let t = self.table(table)?;
        let fits = group.start <= group.end && group.end >> t.table.log_size == 0;
        let at = t.groups.partition_point(|g| g.group.end < group.start);
        if !fits || t.groups.get(at).is_some_and(|g| g.group.start <= group.end) {
            return Err(CmdStatus::BadParam);
        }
        fail_if(full, CmdStatus::NoResources)?;
        t.groups.insert(at, InstalledGroup { id, group, entries: Vec::new() });
        self.groups += 1;
        self.next_group = ((self.next_group + 1) & 0xff_ffff).max(1);
        Ok(id)
    }

    /// `DESTROY_FLOW_GROUP`; its entries have to be gone.
    pub(crate) fn destroy_group(&mut self, table: u32, group: u32) -> Answer {
        let t = self.table(table)?;
        let at = t.groups.iter().position(|g| g.id == group).ok_or(CmdStatus::BadResource)?;
        fail_if(!t.groups[at].entries.is_empty(), CmdStatus::BadResourceState)?;
        t.groups.remove(at);
        self.groups -= 1;
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY` with op_mod 0: a new entry at `index`, or another in
    /// the place of the one there.
    pub(crate) fn set_entry(&mut self, table: u32, index: u32, e: Entry) -> Answer {
        check(e.action, &e.destinations)?;
        let full = self.entries >= ENTRIES;
        let t = self.table(table)?;
        let g = t.groups.iter_mut().find(|g| g.id == e.group).ok_or(CmdStatus::BadResource)?;
        fail_if(!(g.group.start..=g.group.end).contains(&index), CmdStatus::BadParam)?;
        let old = g.entries.iter().position(|o| o.index == index);
        fail_if(old.is_none() && full, CmdStatus::NoResources)?;
        if let Some(old) = old {
            g.entries.remove(old);
        }
        let value = e.value.masked(&g.group.criteria.0);
        let at = g.entries.partition_point(|o| (o.entry.value, o.index) < (value, index));
        g.entries.insert(at, InstalledEntry { index, entry: Entry { value, ..e } });
        self.entries += usize::from(old.is_none());
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY` with op_mod 1: of the entry at `index`, what `what`
    /// names ([`modify_fte`]) becomes as in `e`. Value and group stay.
    pub(crate) fn modify_entry(&mut self, table: u32, index: u32, what: u32, e: Entry) -> Answer {
        let old = self
            .table(table)?
            .groups
            .iter_mut()
            .find_map(|g| g.entries.iter_mut().find(|o| o.index == index))
            .map(|o| &mut o.entry)
            .ok_or(CmdStatus::BadResource)?;
        let of = |modified| if what & modified != 0 { &e.destinations } else { &old.destinations };
        let places = of(modify_fte::DESTINATIONS).iter().filter(|d| !d.is_counter());
        let counters = of(modify_fte::COUNTERS).iter().filter(|d| d.is_counter());
        let destinations: Vec<Destination> = places.chain(counters).copied().collect();
        let action = if what & modify_fte::ACTION != 0 { e.action } else { old.action };
        check(action, &destinations)?;
        old.action = action;
        old.destinations = destinations;
        if what & modify_fte::TAG != 0 {
            old.flow_tag = e.flow_tag;
        }
        Ok(())
    }

    pub(crate) fn delete_entry(&mut self, (table, index): (u32, u32)) -> Answer {
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

    pub(crate) fn has_table(&self, n: u32) -> bool {
        self.tables.get(n).is_some()
    }

    /// Returns true if an entry, or a table's miss, leads there.
    pub(crate) fn names(&self, to: Destination) -> bool {
        self.tables.any(|t| {
            let miss =
                matches!((t.table.miss, to), (Miss::Table(a), Destination::Table(b)) if a == b);
            let mut entries = t.groups.iter().flat_map(|g| &g.entries);
            miss || entries.any(|e| e.entry.destinations.contains(&to))
        })
    }

    /// `QUERY_FLOW_TABLE_ENTRY`: the entry at `index`, its value as the group compares it.
    pub(crate) fn entry(&self, table: u32, index: u32) -> Answer<&Entry> {
        let groups = self.tables.find(table)?.groups.iter();
        let found = groups.flat_map(|g| &g.entries).find(|e| e.index == index);
        found.map(|e| &e.entry).ok_or(CmdStatus::BadResource)
    }

    fn table(&mut self, n: u32) -> Answer<&mut Installed> {
        self.tables.find_mut(n)
    }

    fn find_first(&mut self) {
        let receiving = self.tables.iter().filter(|(_, t)| t.table.kind == NIC_RX);
        let lowest = receiving.min_by_key(|(_, t)| t.table.level);
        self.first = self.root.or(lowest.map(|(n, _)| n));
    }
}

/// Checks that an action is consistent and has the destinations it needs.
fn check(action: u32, destinations: &[Destination]) -> Answer {
    let known = flow_action::ALLOW | flow_action::DROP | flow_action::FORWARD | flow_action::COUNT;
    let both = flow_action::DROP | flow_action::FORWARD;
    let somewhere = destinations.iter().filter(|d| !d.is_counter()).count();
    let counters = destinations.len() - somewhere;
    let sane = action & !known == 0
        && action & known != 0
        && action & both != both
        && (action & flow_action::FORWARD == 0 || somewhere > 0)
        && (action & flow_action::COUNT == 0 || counters > 0);
    let fits = sane && somewhere <= COPIES && counters <= COPIES;
    if fits { Ok(()) } else { Err(CmdStatus::BadParam) }
}
