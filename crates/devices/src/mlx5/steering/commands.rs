//! Tables, groups and entries as the commands make and change them. Checks and
//! statuses are the firmware's.

#[cfg(test)]
use super::FlowCounter;
use super::{
    COPIES, Destination, Entry, Group, Installed, InstalledEntry, InstalledGroup, LOG_MAX_SIZE,
    Miss, STEPS, Steering, Table,
};
use alloc::vec::Vec;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::command::{flow_action, modify_fte};
use doorbell_layout::mlx5::steering::NIC_RX;

/// Tables, groups, entries, counters at the most.
const TABLES: usize = 4096;
const GROUPS: usize = 16384;
const ENTRIES: usize = 1 << 16;
#[cfg(test)]
const COUNTERS: usize = 4096;

impl Steering {
    /// `CREATE_FLOW_TABLE`: its number.
    pub(crate) fn create_table(&mut self, table: Table) -> Result<u32, CmdStatus> {
        if table.log_size > LOG_MAX_SIZE || usize::from(table.level) >= STEPS {
            return Err(CmdStatus::BadParam);
        }
        let n = self.tables.insert(Installed { table, groups: Vec::new() }, TABLES)?;
        self.find_first();
        Ok(n)
    }

    /// `MODIFY_FLOW_TABLE`: another miss.
    pub(crate) fn modify_table(&mut self, table: u32, miss: Miss) -> Result<(), CmdStatus> {
        self.table(table)?.table.miss = miss;
        Ok(())
    }

    /// `DESTROY_FLOW_TABLE`; its groups have to be gone, and no entry and
    /// no other table may lead to it.
    pub(crate) fn destroy_table(&mut self, table: u32) -> Result<(), CmdStatus> {
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
    pub(crate) fn set_root(&mut self, table: u32) -> Result<(), CmdStatus> {
        self.table(table)?;
        self.root = Some(table);
        self.find_first();
        Ok(())
    }

    /// `CREATE_FLOW_GROUP`: its number. Groups do not overlap.
    pub(crate) fn create_group(&mut self, table: u32, group: Group) -> Result<u32, CmdStatus> {
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
    pub(crate) fn destroy_group(&mut self, table: u32, group: u32) -> Result<(), CmdStatus> {
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
    pub(crate) fn set_entry(&mut self, table: u32, index: u32, e: Entry) -> Result<(), CmdStatus> {
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
    /// names ([`modify_fte`]) becomes as in `e`. Value and group stay.
    pub(crate) fn modify_entry(
        &mut self,
        table: u32,
        index: u32,
        what: u32,
        e: Entry,
    ) -> Result<(), CmdStatus> {
        let old = self
            .table(table)?
            .groups
            .iter_mut()
            .find_map(|g| g.entries.iter_mut().find(|o| o.index == index))
            .ok_or(CmdStatus::BadResource)?;
        let counts = |d: &Destination| matches!(d, Destination::Counter(_));
        let mut destinations: Vec<Destination> =
            Vec::with_capacity(old.destinations.len() + e.destinations.len());
        let from =
            |modified| if what & modified != 0 { &e.destinations } else { &old.destinations };
        destinations.extend(from(modify_fte::DESTINATIONS).iter().filter(|d| !counts(d)));
        destinations.extend(from(modify_fte::COUNTERS).iter().filter(|d| counts(d)));
        let action = if what & modify_fte::ACTION != 0 { e.action } else { old.action };
        check(action, &destinations)?;
        old.action = action;
        old.destinations = destinations;
        if what & modify_fte::TAG != 0 {
            old.flow_tag = e.flow_tag;
        }
        Ok(())
    }

    /// `DELETE_FLOW_TABLE_ENTRY`.
    pub(crate) fn delete_entry(&mut self, table: u32, index: u32) -> Result<(), CmdStatus> {
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
    #[cfg(test)]
    pub(crate) fn alloc_counter(&mut self) -> Result<u32, CmdStatus> {
        self.counters.insert(FlowCounter::default(), COUNTERS)
    }

    /// `DEALLOC_FLOW_COUNTER`.
    #[cfg(test)]
    pub(crate) fn dealloc_counter(&mut self, n: u32) -> Result<(), CmdStatus> {
        self.counters.take(n).map(|_| ())
    }

    /// `QUERY_FLOW_COUNTER`; with `clear`, it begins again at zero.
    #[cfg(test)]
    pub(crate) fn counter(&mut self, n: u32, clear: bool) -> Result<FlowCounter, CmdStatus> {
        let counter = self.counters.find_mut(n)?;
        let was = *counter;
        if clear {
            *counter = FlowCounter::default();
        }
        Ok(was)
    }

    /// Returns true if the table exists.
    pub(crate) fn has_table(&self, n: u32) -> bool {
        self.tables.get(n).is_some()
    }

    /// Returns true if an entry, or a table's miss, leads there.
    pub(crate) fn names(&self, to: Destination) -> bool {
        self.tables.iter().any(|(_, t)| {
            let miss =
                matches!((t.table.miss, to), (Miss::Table(a), Destination::Table(b)) if a == b);
            miss || t.groups.iter().any(|g| g.entries.iter().any(|e| e.destinations.contains(&to)))
        })
    }

    /// `QUERY_FLOW_TABLE_ENTRY`: the entry at `index`, its value as the group compares it.
    pub(crate) fn entry(&self, table: u32, index: u32) -> Option<Entry> {
        let groups = &self.tables.get(table)?.groups;
        groups.iter().find_map(|g| {
            let e = g.entries.iter().find(|e| e.index == index)?;
            let destinations = e.destinations.clone();
            Some(Entry {
                group: g.id,
                flow_tag: e.flow_tag,
                action: e.action,
                value: e.value,
                destinations,
            })
        })
    }

    fn table(&mut self, n: u32) -> Result<&mut Installed, CmdStatus> {
        self.tables.find_mut(n)
    }

    fn find_first(&mut self) {
        let lowest = self
            .tables
            .iter()
            .filter(|(_, t)| t.table.kind == NIC_RX)
            .min_by_key(|(_, t)| t.table.level);
        self.first = self.root.or(lowest.map(|(n, _)| n));
    }
}

/// Checks that an action is consistent and has the destinations it needs.
fn check(action: u32, destinations: &[Destination]) -> Result<(), CmdStatus> {
    let known = flow_action::ALLOW | flow_action::DROP | flow_action::FORWARD | flow_action::COUNT;
    let both = flow_action::DROP | flow_action::FORWARD;
    let somewhere = destinations.iter().filter(|d| !matches!(d, Destination::Counter(_))).count();
    let counters = destinations.len() - somewhere;
    let sane = action & !known == 0
        && action & known != 0
        && action & both != both
        && (action & flow_action::FORWARD == 0 || somewhere > 0)
        && (action & flow_action::COUNT == 0 || counters > 0);
    if sane && somewhere <= COPIES && counters <= COPIES {
        Ok(())
    } else {
        Err(CmdStatus::BadParam)
    }
}
