//! A guest kernel's symbols, from its `/proc/kallsyms`.

use super::built_in::{Part, Text};
use super::steps::is_among;
use std::collections::HashMap;
use std::fmt;
use thiserror::Error;

/// Lowest address of kernel code on x86-64, arm64 and ppc64.
pub const KERNEL: u64 = 1 << 63;

/// Name of the module of functions that are in no module.
const CORE: &str = "vmlinux";
/// Bytes that the last function of a module has at most: the list has no sizes.
const LONGEST: u64 = 64 << 10;
/// Name of the code that the kernel puts behind a module's, through which its calls reach other
/// modules and the kernel (ppc64).
const STUBS: &str = "[stubs]";
/// Begin the names of the padding in front of a function.
const PREFIXES: [&str; 2] = ["__pfx_", "__cfi_"];
/// Bytes that hold both entries of a function of ppc64.
const ENTRY: u64 = 16;
/// The highest four bits of ppc64's addresses, and the distance of its second entry.
const PPC64: u64 = 0xc;
const SECOND: u64 = 8;

/// A function of the kernel. Parts that a compiler made of it (`f.cold`, `f.isra.0`) belong to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// Its module, `vmlinux` for the kernel itself and `bpf` for BPF programs.
    pub module: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.module, self.name)
    }
}

/// Error of symbols.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SymbolsError {
    /// The list has no function of the kernel.
    #[error("/proc/kallsyms lists no function; the guest's kernel needs CONFIG_KALLSYMS")]
    Empty,
    /// All addresses are zero.
    #[error(
        "/proc/kallsyms shows no addresses; as root in the guest: \
         echo 0 > /proc/sys/kernel/kptr_restrict"
    )]
    Hidden,
    /// The code of a module that is built in is not where its objects say.
    #[error(
        "the functions of `{module}`, which is built in, cannot be told from the kernel's: the \
         code of its object around `{function}` is there {places} times; the image and the build \
         tree have to belong together"
    )]
    Unlike {
        /// The name of the module.
        module: String,
        /// The first function of the code.
        function: String,
        /// Places in the kernel with the same functions.
        places: usize,
    },
}

/// Functions of a guest's kernel by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// In ascending order, without overlap.
    ranges: Vec<Range>,
    functions: Vec<Function>,
    skipped: usize,
}

/// Addresses of a function.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    function: usize,
    /// The code behind the function, if the list does not show the function's end.
    behind: Option<usize>,
    /// The function is entered at its start: it is no part that a compiler made of another.
    is_entry: bool,
    /// Padding in front of the function.
    is_prefix: bool,
}

/// A line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) address: u64,
    pub(super) kind: char,
    pub(super) name: &'a str,
    pub(super) module: &'a str,
}

impl<'a> Line<'a> {
    /// Reads `address type name` and a module in brackets, if there is one.
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let mut parts = line.split_ascii_whitespace();
        let (address, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
        let address = u64::from_str_radix(address, 16).ok()?;
        let module = match parts.next() {
            None => CORE,
            Some(m) => m.strip_prefix('[')?.strip_suffix(']').filter(|m| !m.is_empty())?,
        };
        let mut kind = kind.chars();
        match (kind.next(), kind.next(), parts.next()) {
            (Some(kind), None, None) => Some(Line { address, kind, name, module }),
            _ => None,
        }
    }

    /// Returns whether it marks the code's form (`$x` and `$d` of arm64) or a place in a function
    /// (`.L` of compilers, `.E` of x86's assembly).
    pub(super) fn is_mark(&self) -> bool {
        ["$", ".L", ".E_"].iter().any(|m| self.name.starts_with(m))
    }

    /// Returns whether it is the padding in front of a function.
    pub(super) fn is_prefix(&self) -> bool {
        PREFIXES.iter().any(|p| self.name.starts_with(p))
    }

    fn is_text(&self) -> bool {
        matches!(self.kind, 't' | 'T' | 'w' | 'W')
    }

    /// Returns whether it is a whole function, and no part that a compiler made of another.
    pub(super) fn is_entry(&self) -> bool {
        ![".cold", ".part."].iter().any(|part| self.name.contains(part))
    }

    /// Returns the function's name without the compiler's additions.
    pub(super) fn function(&self) -> &'a str {
        // A leading dot is the code of a function whose plain name is its descriptor (ppc64).
        let name = self.name.strip_prefix('.').unwrap_or(self.name);
        let name = PREFIXES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
        match name.find('.') {
            Some(at) if at > 0 => &name[..at],
            _ => name,
        }
    }

    /// Orders names of one address: the first is the best.
    pub(super) fn preference(&self) -> (bool, usize, bool, usize, &'a str) {
        let name = self.function();
        let underscores = name.len() - name.trim_start_matches('_').len();
        let local = self.kind.is_ascii_lowercase();
        let border = ["_stext", "_text", "_sinittext", "_etext", "_einittext"].contains(&name);
        (border, underscores, local, name.len(), name)
    }
}

impl Symbols {
    /// Reads the text of `/proc/kallsyms`. Lines of another form are counted in
    /// [`Symbols::skipped`].
    pub fn parse(kallsyms: &str) -> Result<Symbols, SymbolsError> {
        let mut symbols = Symbols::default();
        let mut lines = Vec::new();
        let mut hidden = false;
        for line in kallsyms.lines().filter(|l| !l.trim().is_empty()) {
            match Line::parse(line) {
                // Absolute symbols are numbers, and offsets of a CPU's variables.
                Some(l) if l.is_mark() || matches!(l.kind, 'a' | 'A') => {}
                Some(l) if l.address < KERNEL => hidden |= l.address == 0 && l.is_text(),
                Some(l) => lines.push(l),
                None => symbols.skipped += 1,
            }
        }
        lines.sort_by_key(|l| (l.address, !l.is_text(), l.preference(), l.module));
        lines.dedup_by_key(|l| l.address);
        for (i, line) in lines.iter().enumerate().filter(|(_, l)| l.is_text()) {
            let longest = line.address.saturating_add(LONGEST);
            let next = lines.get(i + 1);
            let end = match next {
                Some(next) if next.module == line.module => next.address,
                Some(next) => next.address.min(longest),
                None => longest,
            };
            let is_last = next.is_none_or(|n| !n.is_text() || n.module != line.module);
            symbols.add(line, end, is_last);
        }
        match (symbols.ranges.is_empty(), hidden) {
            (true, true) => Err(SymbolsError::Hidden),
            (true, false) => Err(SymbolsError::Empty),
            _ => Ok(symbols),
        }
    }

    fn add(&mut self, line: &Line<'_>, end: u64, is_last: bool) {
        let mut new = |name: &str| {
            self.functions.push(Function { module: line.module.into(), name: name.into() });
            self.functions.len() - 1
        };
        let function = new(line.function());
        // The cold part of a function is entered in its middle.
        let has_stubs = is_last && line.module != CORE && !line.name.contains(".cold");
        let behind = has_stubs.then(|| new(STUBS));
        let is_entry = line.is_entry();
        let is_prefix = line.is_prefix();
        self.ranges.push(Range { start: line.address, end, function, behind, is_entry, is_prefix });
    }

    /// Gives functions of the kernel itself to a module that is built into it, by their names as
    /// [`built_in`](super::built_in) has them.
    pub(crate) fn give(&mut self, module: &str, names: &str) {
        let own = |f: &&mut Function| f.module == CORE && is_among(names, &f.name);
        self.functions.iter_mut().filter(own).for_each(|f| module.clone_into(&mut f.module));
    }

    /// Gives functions of the kernel itself to a module that is built into it, by the text of its
    /// objects. Code of which the kernel has no function was left out of it.
    ///
    /// # Errors
    /// The text is at no place of the kernel, or at several.
    pub(crate) fn give_text(&mut self, module: &str, text: &[Text]) -> Result<(), SymbolsError> {
        let own = |r: &&Range| !r.is_prefix && self.functions[r.function].module == CORE;
        let mut places = [HashMap::<&str, Vec<u64>>::new(), HashMap::new()];
        for range in self.ranges.iter().filter(own) {
            let name = &*self.functions[range.function].name;
            places[usize::from(range.is_entry)].entry(name).or_default().push(range.start);
        }
        let at = |part: &Part| {
            let places = &places[usize::from(part.is_entry)];
            places.get(&*part.function).map_or(&[][..], Vec::as_slice)
        };
        let mut found = Vec::new();
        for Text(parts) in text {
            let Some(first) = parts.first() else { continue };
            if parts.iter().all(|part| at(part).is_empty()) {
                continue;
            }
            let all_from = |begin: u64| {
                let there = |p: &Part| at(p).binary_search(&begin.wrapping_add(p.distance)).is_ok();
                parts.iter().all(there)
            };
            let begins = at(first).iter().map(|start| start.wrapping_sub(first.distance));
            let begins: Vec<u64> = begins.filter(|begin| all_from(*begin)).collect();
            let [begin] = begins[..] else {
                let (module, function) = (module.to_owned(), first.function.clone());
                return Err(SymbolsError::Unlike { module, function, places: begins.len() });
            };
            found.extend(parts.iter().map(|part| begin.wrapping_add(part.distance)));
        }
        found.sort_unstable();
        for range in self.ranges.iter().filter(|r| found.binary_search(&r.start).is_ok()) {
            module.clone_into(&mut self.functions[range.function].module);
        }
        Ok(())
    }

    /// Returns the functions with the addresses at which they are entered. Those of ppc64 have two,
    /// of which the first leads to the second.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Function, [u64; 2])> {
        let second = |r: &Range| if r.start >> 60 == PPC64 { r.start + SECOND } else { r.start };
        let all = self.ranges.iter().filter(|r| r.is_entry);
        all.filter_map(move |r| Some((self.functions.get(r.function)?, [r.start, second(r)])))
    }

    /// Returns the number of lines that have not the list's form.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns the function that an address belongs to.
    pub fn function(&self, address: u64) -> Option<&Function> {
        self.function_among(address, |_| true)
    }

    /// Returns the function that an executed address belongs to. `any` tells whether there is an
    /// executed address among some.
    ///
    /// The list does not show where a module's last function ends. What was executed there is
    /// `[stubs]` if the function was not entered.
    pub(super) fn function_among(
        &self,
        address: u64,
        any: impl Fn(std::ops::Range<u64>) -> bool,
    ) -> Option<&Function> {
        let after = self.ranges.partition_point(|r| r.start <= address);
        let range = self.ranges[..after].last().filter(|r| address < r.end)?;
        let entry = range.start..range.start.saturating_add(ENTRY);
        let behind = range.behind.filter(|_| !any(entry));
        self.functions.get(behind.unwrap_or(range.function))
    }
}
