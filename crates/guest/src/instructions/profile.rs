//! Work by module and function.

use super::counter::Inside;
use super::{Event, Executed, Function, KERNEL, Step, Symbols};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::Sum;

/// Instructions, and the loads and stores of device memory among them if those were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// Executed instructions.
    pub instructions: u64,
    /// Loads from device memory.
    pub loads: u64,
    /// Stores to device memory.
    pub stores: u64,
}

impl Work {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Work::default()
    }

    pub(super) fn add(&mut self, more: Work) {
        // The counts of a guest at work for a thousand years fit.
        self.instructions = self.instructions.saturating_add(more.instructions);
        self.loads = self.loads.saturating_add(more.loads);
        self.stores = self.stores.saturating_add(more.stores);
    }

    pub(super) fn since(self, earlier: Work) -> Work {
        Work {
            instructions: self.instructions.saturating_sub(earlier.instructions),
            loads: self.loads.saturating_sub(earlier.loads),
            stores: self.stores.saturating_sub(earlier.stores),
        }
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Work>>(all: I) -> Work {
        all.fold(Work::default(), |mut sum, work| {
            sum.add(work);
            sum
        })
    }
}

/// Work by module and function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    functions: BTreeMap<Function, Work>,
    /// Calls of functions that were called.
    calls: BTreeMap<Function, u64>,
    user: Work,
    unknown: Work,
    unlisted: Work,
    mmio: bool,
    /// By event, in the order of [`Event::ALL`], if they were followed.
    inside: Vec<Within>,
}

/// The calls of a driver's functions for an event, with all that they call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Calls.
    pub calls: u64,
    /// Calls whose end was not seen.
    pub lost: u64,
    functions: BTreeMap<Function, u64>,
    /// Instructions of no known function.
    unknown: u64,
}

impl Within {
    /// Returns the instructions of the calls: of the functions themselves, and of all that they
    /// call.
    pub fn instructions(&self) -> u64 {
        self.functions.values().sum::<u64>() + self.unknown
    }

    /// Returns the functions that were executed in the calls, most instructions first.
    pub fn functions(&self) -> Vec<(&Function, u64)> {
        let mut all: Vec<_> = self.functions.iter().map(|(f, n)| (f, *n)).collect();
        all.sort_by_key(|(f, n)| (Reverse(*n), *f));
        all
    }
}

impl Profile {
    pub(super) fn of(executed: &Executed, symbols: &Symbols) -> Profile {
        let mut profile =
            Profile { unlisted: executed.unlisted, mmio: executed.mmio, ..Profile::default() };
        let any = |addresses| executed.work.range(addresses).next().is_some();
        for (&address, &work) in &executed.work {
            let part = match symbols.function_among(address, any) {
                _ if address < KERNEL => &mut profile.user,
                None => &mut profile.unknown,
                Some(f) => match profile.functions.get_mut(f) {
                    Some(known) => known,
                    None => profile.functions.entry(f.clone()).or_default(),
                },
            };
            part.add(work);
        }
        for inside in &executed.inside {
            let Inside { calls, lost, .. } = *inside;
            let mut within = Within { calls, lost, ..Within::default() };
            for (&address, n) in &inside.executed {
                match symbols.function_among(address, any) {
                    Some(f) => *within.functions.entry(f.clone()).or_default() += n,
                    None => within.unknown += n,
                }
            }
            profile.inside.push(within);
        }
        let executed_at = |address: u64| executed.work.get(&address).map_or(0, |w| w.instructions);
        for (function, [first, second]) in symbols.entries() {
            let calls = executed_at(first).max(executed_at(second));
            if calls > 0 {
                *profile.calls.entry(function.clone()).or_default() += calls;
            }
        }
        profile
    }

    /// Returns whether loads and stores of device memory were counted.
    pub fn has_mmio(&self) -> bool {
        self.mmio
    }

    /// Returns the kernel's functions, most instructions first.
    pub fn functions(&self) -> Vec<(&Function, Work)> {
        let mut all: Vec<_> = self.functions.iter().map(|(f, w)| (f, *w)).collect();
        all.sort_by_key(|(f, w)| (Reverse(*w), *f));
        all
    }

    /// Returns the calls of a function.
    pub fn calls(&self, module: &str, function: &str) -> u64 {
        let function = Function { module: module.to_owned(), name: function.to_owned() };
        self.calls.get(&function).copied().unwrap_or(0)
    }

    /// Returns how often a driver's functions for an event were called: its own, and those of the
    /// modules that it needs.
    pub fn events(&self, event: Event, driver: &[String]) -> u64 {
        let of = |module: &String| -> u64 {
            event.functions(module).map(|function| self.calls(module, function)).sum()
        };
        driver.iter().map(of).sum()
    }

    /// Returns the calls of a driver's functions for an event with all that they call; `None` if
    /// they were not followed.
    pub fn inside(&self, event: Event) -> Option<&Within> {
        self.inside.get(event as usize)
    }

    /// Returns the kernel's modules, most instructions first.
    pub fn modules(&self) -> Vec<(&str, Work)> {
        let mut sums = BTreeMap::<&str, Work>::new();
        for (function, work) in &self.functions {
            sums.entry(&function.module).or_default().add(*work);
        }
        let mut all: Vec<_> = sums.into_iter().collect();
        all.sort_by_key(|(module, w)| (Reverse(*w), *module));
        all
    }

    /// Returns the work of one module.
    pub fn module(&self, name: &str) -> Work {
        self.of_module(name).map(|(_, w)| w).sum()
    }

    /// Returns the work of a driver's module by step, in the order of [`Step::ALL`].
    pub fn steps(&self, module: &str) -> [(Step, Work); 4] {
        Step::ALL.map(|step| {
            let own = |(f, _): &(&Function, Work)| Step::of(&f.module, &f.name) == step;
            (step, self.of_module(module).filter(own).map(|(_, w)| w).sum())
        })
    }

    fn of_module(&self, name: &str) -> impl Iterator<Item = (&Function, Work)> {
        self.functions.iter().filter(move |(f, _)| f.module == name).map(|(f, w)| (f, *w))
    }

    /// Returns the work of code below the kernel's addresses: programs, and while the guest boots
    /// firmware and the kernel before it uses its own addresses.
    pub fn user(&self) -> Work {
        self.user
    }

    /// Returns the work at addresses of the kernel that no symbol covers: a module's initial code,
    /// which is freed, and arm64's entry from programs.
    pub fn unknown(&self) -> Work {
        self.unknown
    }

    /// Returns the work at addresses for which the plug-in's table had no room. Other parts lack
    /// it.
    pub fn unlisted(&self) -> Work {
        self.unlisted
    }

    /// Returns all work.
    pub fn total(&self) -> Work {
        let parts = [self.user, self.unknown, self.unlisted];
        self.functions.values().copied().chain(parts).sum()
    }
}
