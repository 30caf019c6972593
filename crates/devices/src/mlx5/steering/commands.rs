//! Tables, groups and entries as the commands make and change them. Checks and
//! statuses are the firmware's.

use super::{
    Answer, COMPARES, COPIES, Destination, Entry, Former, Group, Installed, LOG_MAX_SIZE, Masked,
    Miss, STEPS, Steering, Table,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use doorbell_hal::fail_if;
use doorbell_layout::mlx5::command::{flow_action, modify_fte};
use doorbell_layout::mlx5::{CmdStatus, steering::NIC_RX};

/// Tables, groups and entries at the most, and masks of a table: as many as a walk can compare.
const TABLES: usize = 4096;
const GROUPS: usize = 16384;
const ENTRIES: usize = 1 << 16;
const MASKS: usize = COMPARES as usize;

impl Steering {
    /// `CREATE_FLOW_TABLE`: its number.
    pub(crate) fn create_table(&mut self, table: Table) -> Answer<u32> {
        if table.log_size > LOG_MAX_SIZE || usize::from(table.level) >= STEPS {
            return Err(CmdStatus::BadParam);
        }
        self.check_miss(table.level, table.miss)?;
        let (groups, starts, values) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let new = Installed { table, groups, starts, masks: Vec::new(), values };
        let n = self.tables.insert(new, TABLES)?;
        self.hold(table.miss.destination());
        if table.kind == NIC_RX {
            self.receiving.insert((table.level, n));
        }
        self.find_first();
        Ok(n)
    }

    /// `MODIFY_FLOW_TABLE`: another miss.
    pub(crate) fn modify_table(&mut self, table: u32, miss: Miss) -> Answer {
        let old = self.tables.find(table)?.table;
        self.check_miss(old.level, miss)?;
        self.table(table)?.table.miss = miss;
        self.hold(miss.destination());
        self.release(old.miss.destination());
        Ok(())
    }

    /// `DESTROY_FLOW_TABLE`; its groups have to be gone, and no entry and
    /// no other table may lead to it.
    pub(crate) fn destroy_table(&mut self, table: u32) -> Answer {
        let t = self.tables.find(table)?;
        let (used, old) = (!t.groups.is_empty() || self.names(Destination::Table(table)), t.table);
        self.tables.destroy(table, used)?;
        self.release(old.miss.destination());
        self.receiving.remove(&(old.level, table));
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
        let before = t.starts.range(..=group.end).next_back();
        if !fits || before.is_some_and(|(_, id)| t.groups[id].0.end >= group.start) {
            return Err(CmdStatus::BadParam);
        }
        fail_if(full || t.groups.contains_key(&id), CmdStatus::NoResources)?;
        t.add_mask(&group)?;
        t.groups.insert(id, (group, 0));
        t.starts.insert(group.start, id);
        self.asked = self.asked.or(&group.criteria.0);
        self.groups += 1;
        self.next_group = ((self.next_group + 1) & 0xff_ffff).max(1);
        Ok(id)
    }

    /// `DESTROY_FLOW_GROUP`; its entries have to be gone.
    pub(crate) fn destroy_group(&mut self, table: u32, group: u32) -> Answer {
        let t = self.table(table)?;
        let &(old, entries) = t.groups.get(&group).ok_or(CmdStatus::BadResource)?;
        fail_if(entries > 0, CmdStatus::BadResourceState)?;
        t.groups.remove(&group);
        t.starts.remove(&old.start);
        t.remove_mask(&old);
        self.groups -= 1;
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY` with op_mod 0: a new entry at `index`, or another in
    /// the place of the one there.
    pub(crate) fn set_entry(&mut self, table: u32, index: u32, e: Entry) -> Answer {
        check(e.action, &e.destinations)?;
        let full = self.entries >= ENTRIES;
        let t = self.tables.find(table)?;
        let &(group, _) = t.groups.get(&e.group).ok_or(CmdStatus::BadResource)?;
        fail_if(!(group.start..=group.end).contains(&index), CmdStatus::BadParam)?;
        fail_if(full && !t.values.contains_key(&index), CmdStatus::NoResources)?;
        self.check_levels(t.table.level, &e.destinations)?;
        e.destinations.iter().for_each(|d| self.hold(Some(*d)));
        let value = e.value.masked(&group.criteria.0);
        let t = self.table(table)?;
        let old = t.remove(index);
        t.insert(index, Entry { value, ..e });
        self.entries += 1;
        self.removed(old);
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY` with op_mod 1: of the entry at `index`, what `what`
    /// names ([`modify_fte`]) becomes as in `e`. Value and group stay.
    pub(crate) fn modify_entry(&mut self, table: u32, index: u32, what: u32, e: Entry) -> Answer {
        let mut new = self.entry(table, index)?.clone();
        let of = |modified| if what & modified != 0 { &e.destinations } else { &new.destinations };
        let places = of(modify_fte::DESTINATIONS).iter().filter(|d| !d.is_counter());
        let counters = of(modify_fte::COUNTERS).iter().filter(|d| d.is_counter());
        let destinations: Vec<Destination> = places.chain(counters).copied().collect();
        let action = if what & modify_fte::ACTION != 0 { e.action } else { new.action };
        check(action, &destinations)?;
        self.check_levels(self.tables.find(table)?.table.level, &destinations)?;
        destinations.iter().for_each(|d| self.hold(Some(*d)));
        (new.action, new.destinations) = (action, destinations);
        if what & modify_fte::TAG != 0 {
            new.flow_tag = e.flow_tag;
        }
        let t = self.table(table)?;
        let old = t.remove(index);
        t.insert(index, new);
        self.entries += 1;
        self.removed(old);
        Ok(())
    }

    pub(crate) fn delete_entry(&mut self, (table, index): (u32, u32)) -> Answer {
        let old = self.table(table)?.remove(index);
        fail_if(old.is_none(), CmdStatus::BadResource)?;
        self.removed(old);
        Ok(())
    }

    pub(crate) fn has_table(&self, n: u32) -> bool {
        self.tables.get(n).is_some()
    }

    /// Returns true if an entry, or a table's miss, leads there.
    pub(crate) fn names(&self, to: Destination) -> bool {
        self.uses.contains_key(&to)
    }

    /// Returns the count of tables.
    pub(crate) fn len(&self) -> usize {
        self.tables.live()
    }

    /// `QUERY_FLOW_TABLE_ENTRY`: the entry at `index`, its value as the group compares it.
    pub(crate) fn entry(&self, table: u32, index: u32) -> Answer<&Entry> {
        self.tables.find(table)?.entry(index).ok_or(CmdStatus::BadResource)
    }

    fn table(&mut self, n: u32) -> Answer<&mut Installed> {
        self.tables.find_mut(n)
    }

    /// Checks that all destinations are TIRs or tables that a table of `level` may lead to.
    fn check_levels(&self, level: u8, to: &[Destination]) -> Answer {
        to.iter().try_for_each(|d| match *d {
            Destination::Table(n) => {
                fail_if(self.tables.find(n)?.table.level <= level, CmdStatus::BadParam)
            }
            Destination::Tir(_) | Destination::Counter(_) => Ok(()),
        })
    }

    fn check_miss(&self, level: u8, miss: Miss) -> Answer {
        self.check_levels(level, miss.destination().as_slice())
    }

    fn hold(&mut self, to: Option<Destination>) {
        to.into_iter().for_each(|to| *self.uses.entry(to).or_default() += 1);
    }

    fn release(&mut self, to: Option<Destination>) {
        if let Some(to) = to
            && let Some(n) = self.uses.get_mut(&to)
        {
            *n -= 1;
            if *n == 0 {
                self.uses.remove(&to);
            }
        }
    }

    /// An entry was taken out of its table.
    fn removed(&mut self, old: Option<Entry>) {
        let Some(old) = old else { return };
        self.entries -= 1;
        old.destinations.iter().for_each(|d| self.release(Some(*d)));
    }

    fn find_first(&mut self) {
        self.first = self.root.or(self.receiving.first().map(|(_, n)| *n));
    }
}

impl Former {
    /// Takes all tables of a function.
    pub(crate) fn take(&mut self, s: &mut Steering) {
        self.0.extend(core::mem::take(s).tables.into_objects());
    }

    /// Returns true if none are left.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets so many parts of tables go.
    pub(crate) fn let_go(&mut self, parts: usize) {
        for _ in 0..parts {
            let Some(t) = self.0.last_mut() else { return };
            let gone = match t.masks.last_mut() {
                Some(m) => m.entries.pop_first().is_some() || m.starts.pop_first().is_some(),
                None => {
                    t.values.pop_first().is_some()
                        || t.starts.pop_first().is_some()
                        || t.groups.pop_first().is_some()
                }
            };
            if !gone && t.masks.pop().is_none() {
                self.0.pop();
            }
        }
    }
}

impl Miss {
    fn destination(self) -> Option<Destination> {
        match self {
            Miss::Default => None,
            Miss::Table(n) => Some(Destination::Table(n)),
        }
    }
}

impl Installed {
    /// Adds a group to those of its mask. `NoResources` when the table has no room for the mask.
    fn add_mask(&mut self, g: &Group) -> Answer {
        match self.masks.iter_mut().find(|m| m.mask == g.criteria.0) {
            Some(m) => _ = m.starts.insert(g.start),
            None => {
                fail_if(self.masks.len() >= MASKS, CmdStatus::NoResources)?;
                let (starts, entries) = (BTreeSet::from([g.start]), BTreeMap::new());
                self.masks.push(Masked { mask: g.criteria.0, starts, entries });
            }
        }
        self.masks.sort_by_key(Masked::first);
        Ok(())
    }

    /// Removes a group from those of its mask.
    fn remove_mask(&mut self, g: &Group) {
        if let Some(m) = self.masked(g) {
            m.starts.remove(&g.start);
        }
        self.masks.retain(|m| !m.starts.is_empty());
        self.masks.sort_by_key(Masked::first);
    }

    fn masked(&mut self, g: &Group) -> Option<&mut Masked> {
        self.masks.iter_mut().find(|m| m.mask == g.criteria.0)
    }

    /// Returns the number of the group that has an index.
    fn group_of(&self, index: u32) -> Option<u32> {
        self.starts.range(..=index).next_back().map(|(_, id)| *id)
    }

    fn entry(&self, index: u32) -> Option<&Entry> {
        let value = self.values.get(&index)?;
        let (group, _) = self.groups.get(&self.group_of(index)?)?;
        let m = self.masks.iter().find(|m| m.mask == group.criteria.0)?;
        m.entries.get(&(*value, index))
    }

    /// Adds an entry at an index of its group that has none.
    fn insert(&mut self, index: u32, e: Entry) {
        let Some((group, entries)) = self.groups.get_mut(&e.group) else { return };
        *entries += 1;
        let group = *group;
        self.values.insert(index, e.value);
        if let Some(m) = self.masked(&group) {
            m.entries.insert((e.value, index), e);
        }
    }

    /// Removes the entry at an index, if there is one.
    fn remove(&mut self, index: u32) -> Option<Entry> {
        let value = self.values.remove(&index)?;
        let (group, entries) = self.groups.get_mut(&self.group_of(index)?)?;
        *entries -= 1;
        let group = *group;
        self.masked(&group)?.entries.remove(&(value, index))
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
