//! Says which mutants are on. In recording, notes which mutants a process reaches.
#![feature(core_intrinsics, const_eval_select)]
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
unsafe extern "C" { safe fn clock() -> std::ffi::c_long; }
static ON: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
static RECORD: AtomicBool = AtomicBool::new(false);
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
#[inline(always)]
pub const fn on(n: u32) -> bool {
    const fn never(_: u32) -> bool { false }
    #[inline(always)]
    fn at_run_time(n: u32) -> bool {
        ON[n as usize].load(Relaxed) || RECORD.load(Relaxed) && note(n)
    }
    core::intrinsics::const_eval_select((n,), never, at_run_time)
}
#[cold]
fn note(n: u32) -> bool {
    REACHED[n as usize].store(true, Relaxed);
    false
}
extern "C" fn begin() {
    RECORD.store(std::env::var("MUTANTS_REACHED").is_ok(), Relaxed);
    for n in std::env::var("MUTANTS").iter().flat_map(|all| all.split(',')) {
        ON[n.parse::<usize>().unwrap()].store(true, Relaxed);
    }
}
extern "C" fn end() {
    if let Ok(dir) = std::env::var("MUTANTS_REACHED") {
        let reached = (0..COUNT).filter(|n| REACHED[*n].load(Relaxed));
        let reached: String = reached.map(|n| format!(" {n}")).collect();
        let note = format!("{}{reached}", clock());
        let _ = std::fs::write(format!("{dir}/{}", std::process::id()), note);
    }
}
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
