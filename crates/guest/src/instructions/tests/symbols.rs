//! Tests of symbols: names, extents and errors.

use super::{ARM64, PPC64, X86_64, function};
use crate::instructions::{Symbols, SymbolsError, Text};

/// Returns the function of an address as text.
fn name(symbols: &Symbols, address: u64) -> String {
    symbols.function(address).map_or("none".into(), ToString::to_string)
}

#[test]
fn parts_belong_to_their_function() {
    let x86 = Symbols::parse(X86_64).unwrap();
    assert_eq!(name(&x86, 0xffff_ffff_81cc_b16f), "vmlinux:handle_softirqs");
    assert_eq!(name(&x86, 0xffff_ffff_828b_2b2d), "vmlinux:handle_softirqs");
    assert_eq!(name(&x86, 0xffff_ffff_c043_5793), "e1000:e1000_xmit_frame");
    let arm64 = Symbols::parse(ARM64).unwrap();
    assert_eq!(name(&arm64, 0xffff_b957_e281_56d8), "vmlinux:irq_domain_create_hierarchy");
    let ppc64 = Symbols::parse(PPC64).unwrap();
    assert_eq!(name(&ppc64, 0xc000_0000_0001_b6d0), "vmlinux:flush_all_to_thread");
}

#[test]
fn marks_are_no_functions() {
    let arm64 = Symbols::parse(ARM64).unwrap();
    assert_eq!(arm64.function(0xffff_b957_8e71_4000), None);
    let max_speed = function("phylink", "phylink_interface_max_speed");
    assert_eq!(arm64.function(0xffff_b957_8e71_4008), Some(&max_speed));
    // The mark is within the function that begins before it.
    let x86 = Symbols::parse(X86_64).unwrap();
    assert_eq!(name(&x86, 0xffff_ffff_81cc_b400), "vmlinux:__irq_exit_rcu");
}

#[test]
fn data_and_distance_end_a_function() {
    let x86 = Symbols::parse(X86_64).unwrap();
    assert_eq!(name(&x86, 0xffff_ffff_82bf_ffff), "vmlinux:__request_region_locked");
    assert_eq!(name(&x86, 0xffff_ffff_82c0_0000), "none");
    assert_eq!(name(&x86, 0xffff_ffff_c044_9657), "e1000:e1000_reset");
    assert_eq!(name(&x86, 0xffff_ffff_c044_9658), "none");
    // The last of all has no size.
    assert_eq!(name(&x86, 0xffff_ffff_c044_a000), "bpf:bpf_prog_6deef7357e7b4530");
    assert_eq!(name(&x86, 0xffff_ffff_c045_a000), "none");
}

#[test]
fn the_better_of_two_names_counts() {
    let x86 = Symbols::parse(X86_64).unwrap();
    assert_eq!(name(&x86, 0xffff_ffff_81c0_0c42), "vmlinux:_text");
    let two = "c000000000000100 t __memcpy\nc000000000000100 T memcpy\n";
    for text in [two.to_owned(), two.lines().rev().collect::<Vec<_>>().join("\n")] {
        assert_eq!(name(&Symbols::parse(&text).unwrap(), 0xc000_0000_0000_0100), "vmlinux:memcpy");
    }
}

#[test]
fn dotted_entries_of_ppc64_are_functions() {
    let text =
        "c000000000000100 t .ibmveth_poll\t[ibmveth]\nc000000000000200 t .L.lab\t[ibmveth]\n";
    let symbols = Symbols::parse(text).unwrap();
    assert_eq!(name(&symbols, 0xc000_0000_0000_0204), "ibmveth:ibmveth_poll");
}

#[test]
fn lists_without_addresses_are_refused() {
    let hidden = "0000000000000000 T _stext\n0000000000000000 t e1000_intr\t[e1000]\n";
    assert_eq!(Symbols::parse(hidden).unwrap_err(), SymbolsError::Hidden);
    assert_eq!(Symbols::parse("").unwrap_err(), SymbolsError::Empty);
    let data = "ffffffff82c00000 D _etext\n";
    assert_eq!(Symbols::parse(data).unwrap_err(), SymbolsError::Empty);
    assert!(SymbolsError::Hidden.to_string().contains("kptr_restrict"));
}

#[test]
fn malformed_lines_are_counted() {
    let text =
        format!("{PPC64}c00000000000010 garbled\nc0000000000002zz t f\nc000000000000300 t f g\n");
    let symbols = Symbols::parse(&text).unwrap();
    assert_eq!(symbols.skipped(), 3);
    assert_eq!(Symbols::parse(X86_64).unwrap().skipped(), 0);
}

#[test]
fn names_tell_the_functions_of_a_built_in_module() {
    use crate::instructions::built_in;
    let text = "ffffffff81a00000 t virtqueue_add_split\nffffffff81a00400 T vringh_init_user\n\
                ffffffff81a00800 t vring_interrupt\nffffffffc0200000 t vring_x\t[vhost]\n";
    let mut symbols = Symbols::parse(text).unwrap();
    symbols.give("virtio_ring", built_in::names("virtio_ring").unwrap());
    let all = [0xffff_ffff_81a0_0000, 0xffff_ffff_81a0_0400, 0xffff_ffff_81a0_0800];
    let named = all.map(|address| name(&symbols, address));
    let expected = [
        "virtio_ring:virtqueue_add_split",
        "vmlinux:vringh_init_user",
        "virtio_ring:vring_interrupt",
    ];
    assert_eq!(named, expected);
    assert_eq!(name(&symbols, 0xffff_ffff_c020_0000), "vhost:vring_x");
    assert_eq!(built_in::names("e1000"), None);
}

/// A kernel with two drivers of one source: their functions have the same names, at other
/// distances.
const TWO: &str = "\
ffffffff81000000 T _text
ffffffff81000f70 t __pfx_e1000_xmit_frame
ffffffff81000f80 t e1000_xmit_frame
ffffffff81001000 t e1000_clean.isra.0
ffffffff81001080 T e1000_open
ffffffff81001100 t e1000_xmit_frame
ffffffff81001200 t e1000_clean.isra.0
ffffffff81001280 T e1000_open
ffffffff81002000 t e1000_clean.isra.0.cold
ffffffff81003000 D _etext
";

#[test]
fn objects_tell_the_functions_of_a_built_in_driver() {
    let main = Text::of(vec![
        (0x100, "e1000_clean.isra.0"),
        (0x10, "__pfx_e1000_xmit_frame"),
        (0, "e1000_xmit_frame"),
        (0x180, "e1000_open"),
    ]);
    let cold = Text::of(vec![(0, "e1000_clean.isra.0.cold")]);
    // The linker has left it out.
    let unused = Text::of(vec![(0, "e1000_unused")]);
    let of = |text: &[Text]| {
        let mut symbols = Symbols::parse(TWO).unwrap();
        symbols.give_text("e1000", text).map(|()| symbols)
    };
    let symbols = of(&[main, unused]).unwrap();
    let own = [0x1100, 0x1200, 0x1280].map(|at| name(&symbols, 0xffff_ffff_8100_0000 + at));
    assert_eq!(
        own,
        ["e1000_xmit_frame", "e1000_clean", "e1000_open"].map(|f| "e1000:".to_owned() + f)
    );
    for other in [0xf80, 0x1000, 0x1080, 0x2000] {
        assert!(name(&symbols, 0xffff_ffff_8100_0000 + other).starts_with("vmlinux:"));
    }
    // Two places have the name, and no place has both functions at this distance.
    let unlike = |places| {
        let (module, function) = ("e1000".to_owned(), "e1000_clean".to_owned());
        SymbolsError::Unlike { module, function, places }
    };
    assert_eq!(name(&of(&[cold]).unwrap(), 0xffff_ffff_8100_2000), "e1000:e1000_clean");
    let one = Text::of(vec![(0, "e1000_clean.isra.0")]);
    assert_eq!(of(&[one]).unwrap_err(), unlike(2));
    let moved = Text::of(vec![(0, "e1000_clean.isra.0"), (0x90, "e1000_open")]);
    assert_eq!(of(&[moved]).unwrap_err(), unlike(0));
}
