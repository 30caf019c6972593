use super::*;
use clap::Parser as _;

#[test]
fn a_unit_address_is_hexadecimal_and_below_those_that_qemu_gives() {
    assert_eq!(["0x30001003", "30001003"].map(|t| unit_address(t).ok()), [Some(0x3000_1003); 2]);
    for wrong in ["", "0x", "0", "71000000", "100000000", "+1", "-1", "unit", "0x0x1"] {
        assert!(unit_address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_mac_address_is_unicast() {
    assert_eq!(mac("52:54:0:db:00:01").ok(), Some([0x52, 0x54, 0, 0xdb, 0, 1]));
    assert_eq!(mac("52-54-00-db-00-01").ok(), Some([0x52, 0x54, 0, 0xdb, 0, 1]));
    for wrong in [
        "",
        "52:54:00:db:00",
        "52:54:00:db:00:01:02",
        "53:54:00:db:00:01",
        "0:0:0:0:0:0",
        "g:0:0:0:0:1",
        "+1:0:0:0:0:1",
    ] {
        assert!(mac(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn each_partition_has_an_address_of_its_own() {
    let two = "2:0:0:0:0:1,2:0:0:0:0:2";
    assert_eq!(macs(two, 2).ok(), Some(vec![[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]));
    for (wrong, partitions) in [(two, 1), (two, 3), ("2:0:0:0:0:1,2:0:0:0:0:01", 2), ("", 1)] {
        assert!(macs(wrong, partitions).is_err(), "{wrong}");
    }
}

/// The arguments as a command line has them.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    of: Serve,
}

#[test]
fn several_partitions_have_addresses_and_one_takes_what_its_guest_says() {
    let given = |more: &[&str]| {
        let line = ["serve", "veth", "--plugin-socket", "s"];
        let args = Line::try_parse_from(line.iter().chain(more)).unwrap();
        addresses(&args.of).unwrap()
    };
    let [first, second] = [[0x52, 0x54, 0, 0xdb, 0, 1], [0x52, 0x54, 0, 0xdb, 0, 2]];
    assert_eq!(given(&["--partitions", "2"]), [first, second]);
    assert_eq!(given(&["--partitions", "2", "--allow-mac-change"]), [[0; 6]; 0]);
    assert_eq!(given(&[]), [[0; 6]; 0]);
    assert_eq!(given(&["--mac", "52:54:0:db:0:2"]), [second]);
}
