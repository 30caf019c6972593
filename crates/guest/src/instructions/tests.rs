//! Tests of the reader. Those in `exact` run real guests.

mod exact;
mod programs;
mod reader;
mod symbols;

use super::{Event, Executed, Function, Step, Symbols, Work};
use proptest::prelude::*;

/// Lines of real guests: Debian's 6.12.107 (x86-64, ppc64el) and 7.3.4 (arm64).
const X86_64: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81c00000 T _stext
ffffffff81c00000 T _text
ffffffff81c00c43 T startup_64
ffffffff81ccb160 t __pfx_handle_softirqs
ffffffff81ccb170 t handle_softirqs
ffffffff81ccb3f0 t __pfx___irq_exit_rcu
ffffffff828a6162 t .E_read_words
ffffffff828b2b2d t handle_softirqs.cold
ffffffff828b2b6b t __request_region_locked.cold
ffffffff82c00000 D _etext
ffffffffc0425c40 t __pfx_e1000_xmit_frame	[e1000]
ffffffffc0425c50 t e1000_xmit_frame	[e1000]
ffffffffc0426d30 t __pfx_e1000_get_hw_dev	[e1000]
ffffffffc0435686 t e1000_alloc_rx_buffers.cold	[e1000]
ffffffffc04356cb t e1000_xmit_frame.cold	[e1000]
ffffffffc0435794 t e1000_reset.cold	[e1000]
ffffffffc0449658 r __param_RxDescriptors	[e1000]
ffffffffc044a000 t bpf_prog_6deef7357e7b4530	[bpf]
";
const ARM64: &str = "\
ffffb957e2810000 T _stext
ffffb957e2810408 T __do_softirq
ffffb957e2810430 T __entry_text_start
ffffb957e2810430 T __softirqentry_text_end
ffffb957e28156d8 t irq_domain_create_hierarchy.constprop.0
ffffb957e2815780 t encoding_next
ffffb957e3ae0000 D _etext
ffffb9578e714000 t $x	[phylink]
ffffb9578e714008 t phylink_interface_max_speed	[phylink]
ffffb9578e714090 T phylink_limit_mac_speed	[phylink]
ffffb9578e728b4a r __kstrtab_phylink_start	[phylink]
";
const PPC64: &str = "\
c000000000000000 T _stext
c00000000001b6d0 t flush_all_to_thread.part.0
c00000000014d8a0 t handle_softirqs
c000000001013000 D _etext
c00800000028bcf8 t ibmveth_start_xmit	[ibmveth]
c00800000028c268 t ibmveth_close	[ibmveth]
c00800000028caa8 t ibmveth_poll	[ibmveth]
c00800000028d3d8 t ibmveth_alloc_buffer_pool	[ibmveth]
";

fn instructions(instructions: u64) -> Work {
    Work { instructions, ..Work::default() }
}

#[test]
fn work_is_by_function_and_address_space() {
    let symbols = Symbols::parse(X86_64).unwrap();
    let executed = Executed::from_counts([
        (0xffff_ffff_c042_5c50, 30),
        (0xffff_ffff_c042_6d2f, 10),
        (0xffff_ffff_c043_56cb, 2), // its cold part
        (0xffff_ffff_81cc_b170, 5),
        (0xffff_ffff_9000_0000, 3), // behind all text of the kernel
        (0x40_1000, 7),
    ]);
    let profile = executed.profile(&symbols);
    let names: Vec<_> =
        profile.functions().iter().map(|(f, w)| (f.to_string(), w.instructions)).collect();
    let expected = [("e1000:e1000_xmit_frame", 42), ("vmlinux:handle_softirqs", 5)];
    assert_eq!(names, expected.map(|(name, n)| (name.to_owned(), n)));
    assert_eq!(profile.modules(), [("e1000", instructions(42)), ("vmlinux", instructions(5))]);
    assert_eq!(profile.user(), instructions(7));
    assert_eq!(profile.unknown(), instructions(3));
    assert_eq!(profile.total(), executed.total());
}

#[test]
fn steps_hold_all_of_a_module() {
    let symbols = Symbols::parse(PPC64).unwrap();
    let executed = Executed::from_counts([
        (0xc008_0000_0028_bcf8, 100),
        (0xc008_0000_0028_caa8, 20),
        (0xc008_0000_0028_c268, 3),
        (0xc000_0000_0014_d8a0, 1000),
    ]);
    let profile = executed.profile(&symbols);
    let steps = profile.steps("ibmveth").map(|(step, work)| (step.name(), work.instructions));
    assert_eq!(steps, [("transmit", 100), ("completion", 0), ("receive", 20), ("other", 3)]);
    assert_eq!(profile.module("ibmveth"), instructions(123));
}

#[test]
fn calls_are_counted_at_entries() {
    let x86 = Symbols::parse(X86_64).unwrap();
    let executed = Executed::from_counts([
        (0xffff_ffff_c042_5c50, 30),
        (0xffff_ffff_c042_5c54, 90), // a loop
        (0xffff_ffff_c043_56cb, 2),  // its cold part
    ]);
    let profile = executed.profile(&x86);
    assert_eq!(profile.calls("e1000", "e1000_xmit_frame"), 30);
    assert_eq!(profile.calls("e1000", "e1000_reset"), 0);
    let driver = ["e1000".to_owned()];
    assert_eq!(Event::ALL.map(|event| profile.events(event, &driver)), [30, 0, 0]);

    // Two came from another module, and five from this one.
    let ppc64 = Symbols::parse(PPC64).unwrap();
    let executed = Executed::from_counts([
        (0xc008_0000_0028_bcf8, 2),
        (0xc008_0000_0028_bd00, 7),
        (0xc000_0000_0001_b6d0, 9), // a part of a function
    ]);
    let profile = executed.profile(&ppc64);
    assert_eq!(profile.calls("ibmveth", "ibmveth_start_xmit"), 7);
    assert_eq!(profile.calls("vmlinux", "flush_all_to_thread"), 0);
}

#[test]
fn code_behind_a_module_is_its_stubs() {
    let symbols = Symbols::parse(PPC64).unwrap();
    let [entry, behind] = [0xc008_0000_0028_d3e0, 0xc008_0000_0028_e000];
    let name = |counts: &[(u64, u64)]| {
        let profile = Executed::from_counts(counts.iter().copied()).profile(&symbols);
        profile.functions()[0].0.to_string()
    };
    assert_eq!(name(&[(behind, 5)]), "ibmveth:[stubs]");
    assert_eq!(name(&[(entry, 1), (behind, 5)]), "ibmveth:ibmveth_alloc_buffer_pool");
}

#[test]
fn drivers_functions_have_their_step() {
    for (module, function, step) in [
        ("mlx5_core", "mlx5e_sq_xmit_mpwqe", Step::Transmit),
        ("mlx5_core", "mlx5e_sq_calc_wqe_attr", Step::Transmit),
        ("mlx5_core", "mlx5e_tx_tunnel_accel", Step::Transmit),
        ("mlx5_core", "mlx5e_features_check", Step::Transmit),
        ("mlx5_core", "mlx5e_tx_wi_dma_unmap", Step::Completion),
        ("mlx5_core", "mlx5e_tx_dim_work", Step::Other),
        ("mlx5_core", "mlx5e_xdp_handle", Step::Receive),
        ("e1000", "e1000_clean_tx_irq", Step::Completion),
        ("e1000", "e1000_clean_tx_ring", Step::Other),
        ("igb", "igb_clean_rx_irq_zc", Step::Receive),
        ("virtio_net", "start_xmit", Step::Transmit),
        ("virtio_net", "virtnet_xsk_xmit_batch", Step::Transmit),
        ("ibmvnic", "map_txpool_buf_to_ltb", Step::Transmit),
        ("e1000", "start_xmit", Step::Other),
        ("nobody", "e1000_xmit_frame", Step::Other),
    ] {
        assert_eq!(Step::of(module, function), step, "{module}:{function}");
    }
}

/// A line of a symbol list, often well formed.
fn line() -> impl Strategy<Value = String> {
    let address = prop_oneof![
        (0..64_u64).prop_map(|n| 0xffff_ffff_8100_0000 + n * 0x40),
        (0..64_u64).prop_map(|n| 0xffff_ffff_c000_0000 + n * 0x40),
        any::<u64>()
    ];
    let form =
        (address, "[tTwWdDbBrRaA?]", "[._a-z$]{1,12}", prop_oneof!["", "[a-c]", "\\[[a-c]\\]"])
            .prop_map(|(at, kind, name, module)| format!("{at:016x} {kind} {name}\t{module}"));
    prop_oneof![8 => form, 1 => ".{0,40}"]
}

proptest! {
    #[test]
    fn any_text_is_parsed(text in ".{0,400}") {
        _ = Symbols::parse(&text);
    }

    #[test]
    fn each_instruction_is_in_one_part(
        lines in prop::collection::vec(line(), 0..60),
        counts in prop::collection::vec(
            (prop_oneof![0xffff_ffff_8100_0000..0xffff_ffff_8100_2000_u64,
                         0xffff_ffff_c000_0000..0xffff_ffff_c000_2000_u64, any::<u64>()],
             0..1_000_000_u64), 0..100),
    ) {
        let symbols = Symbols::parse(&lines.join("\n")).unwrap_or_default();
        let executed = Executed::from_counts(counts.iter().copied());
        let profile = executed.profile(&symbols);
        let expected: u64 = counts.iter().map(|c| c.1).sum();
        prop_assert_eq!(executed.total().instructions, expected);
        prop_assert_eq!(profile.total().instructions, expected);
        let user = counts.iter().filter(|c| c.0 >> 63 == 0).map(|c| c.1).sum::<u64>();
        prop_assert_eq!(profile.user().instructions, user);
        for (module, work) in profile.modules() {
            let steps: u64 = profile.steps(module).iter().map(|(_, w)| w.instructions).sum();
            prop_assert_eq!(steps, work.instructions);
        }
        let functions: u64 = profile.functions().iter().map(|(_, w)| w.instructions).sum();
        prop_assert_eq!(functions, expected - user - profile.unknown().instructions);
        // A function that has work has it at an address of its own.
        for (f, _) in profile.functions().into_iter().filter(|(f, _)| f.name != "[stubs]") {
            prop_assert!(counts.iter().any(|c| symbols.function(c.0) == Some(f)));
        }
    }
}

fn function(module: &str, name: &str) -> Function {
    Function { module: module.into(), name: name.into() }
}
