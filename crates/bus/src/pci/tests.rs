use super::*;

fn clocks(settings: Settings, command: Command, addr: u64, bytes: u32) -> u64 {
    Rules::new(settings).unwrap().clocks(&Transaction { addr, command, bytes })
}

/// Conventional PCI: the worked examples at 64 bits, medium decode.
#[test]
fn a_burst_of_512_is_68_clocks_read_and_67_written() {
    assert_eq!(clocks(Settings::POWER4, Command::Mrm, 0x4800, 512), 68);
    assert_eq!(clocks(Settings::POWER4, Command::Mr, 0x42680, 18), 7);
    assert_eq!(clocks(Settings::POWER4, Command::Mwi, 0x4800, 512), 67);
    assert_eq!(clocks(Settings { bits: 32, ..Settings::POWER4 }, Command::Mrm, 0x4800, 512), 132);
    assert_eq!(clocks(Settings { devsel: Devsel::Slow, ..Settings::POWER4 }, Command::Mr, 0, 1), 6);
}

#[test]
fn an_unaligned_start_takes_a_data_phase_more() {
    assert_eq!(
        clocks(Settings::POWER4, Command::Mr, 6, 4) - clocks(Settings::POWER4, Command::Mr, 4, 4),
        1
    );
}

#[test]
fn addresses_above_4_gib_take_a_dual_address_cycle() {
    let x = Settings {
        protocol: Protocol::X { mmrbc: 512, outstanding: 1 },
        mhz: 133,
        ..Settings::POWER4
    };
    for (settings, command) in
        [(Settings::POWER4, Command::Mrm), (Settings::POWER4, Command::Mw), (x, Command::MrBlock)]
    {
        assert_eq!(
            clocks(settings, command, 1 << 32, 8) - clocks(settings, command, 1 << 31, 8),
            1,
            "{command}"
        );
    }
    assert_eq!(
        clocks(x, Command::SplitCompletion, 1 << 32, 512),
        clocks(x, Command::SplitCompletion, 0, 512)
    );
}

#[test]
fn a_split_request_does_not_hold_the_bus_for_its_data() {
    let x = Settings {
        protocol: Protocol::X { mmrbc: 4096, outstanding: 1 },
        mhz: 133,
        ..Settings::POWER4
    };
    assert_eq!(clocks(x, Command::MrBlock, 0, 4096), 6);
    assert_eq!(clocks(x, Command::SplitCompletion, 0, 512), 69);
}

fn error(change: impl FnOnce(&mut Settings)) -> String {
    let mut settings = Settings::POWER4;
    change(&mut settings);
    Rules::new(settings).unwrap_err().to_string()
}

#[test]
fn a_wrong_setting_is_named_with_what_is_allowed() {
    let x = |mmrbc, outstanding| Protocol::X { mmrbc, outstanding };
    insta::assert_snapshot!(
        error(|s| s.line = 8),
        @"line = 8 is not a PCI setting; allowed: 16, 32, 64, 128, 256"
    );
    insta::assert_snapshot!(
        error(|s| s.mhz = 100),
        @"mhz = 100 is not a PCI setting; allowed: 33, 66 (66, 100, 133 on PCI-X)"
    );
    insta::assert_snapshot!(
        error(|s| s.boundary = 64),
        @"boundary = 64 is not a PCI setting; allowed: a power of two from a cache line to 4096"
    );
    insta::assert_snapshot!(
        error(|s| s.bits = 16),
        @"bits = 16 is not a PCI setting; allowed: 32, 64"
    );
    insta::assert_snapshot!(
        error(|s| s.latency_timer = Some(0)),
        @"latency_timer = 0 is not a PCI setting; allowed: 16 to 255 clocks"
    );
    insta::assert_snapshot!(
        error(|s| (s.mhz, s.protocol) = (33, x(512, 1))),
        @"mhz = 33 is not a PCI setting; allowed: 66, 100, 133 (33, 66 on conventional PCI)"
    );
    insta::assert_snapshot!(
        error(|s| (s.mhz, s.protocol) = (133, x(256, 1))),
        @"mmrbc = 256 is not a PCI setting; allowed: 512, 1024, 2048, 4096"
    );
    insta::assert_snapshot!(
        error(|s| (s.mhz, s.protocol) = (133, x(512, 5))),
        @"outstanding = 5 is not a PCI setting; allowed: 1, 2, 3, 4, 8, 12, 16, 32"
    );
}
