use super::*;
use doorbell_bus::random::splitmix;
use doorbell_hostile::fuzz::{Seed, files};

/// Returns bytes by SplitMix64.
fn drawn(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| splitmix(&mut state).to_le_bytes()).take(len / 8).flatten().collect()
}

/// Attacks a device with drawn inputs. Returns the sum of what they reached.
fn all(device: u8) -> Reached {
    let mut sum = Reached::default();
    for seed in 0..100 {
        let mut input = drawn(seed << 2 | u64::from(device), 1024);
        input.insert(0, device);
        sum += attack(&input);
    }
    sum
}

#[test]
fn clients_of_pci_devices_leave_room_for_the_next() {
    for device in [0, 1] {
        let r = all(device);
        assert!(r.connected > 500 && r.dropped > 50 && r.answers > 5000, "{r:?}");
        assert!(r.honest >= 200 && r.arrived > 100, "{r:?}");
    }
}

#[test]
fn guests_are_answered_beside_any_others() {
    for device in [2, 3] {
        let r = all(device);
        assert!(r.connected > 500 && r.dropped > 50 && r.welcome > 50, "{r:?}");
        assert_eq!(r.honest, 100 * (1 + 1024 / 8 / 16 + 1), "{r:?}");
    }
}

/// Returns actions of a script.
fn script(device: u8, actions: &[[u8; 8]]) -> Vec<u8> {
    [&[device], actions.as_flattened()].concat()
}

#[test]
fn a_client_that_says_nothing_is_closed_in_time() {
    let connect = [0; 8];
    let wait = |ms: u16| [11, 1, ms.to_le_bytes()[0], ms.to_le_bytes()[1], 0, 0, 0, 0];
    let read = [14, 0, 0, 0, 0, 0, 0, 0];
    for device in 0..4 {
        let early = attack(&script(device, &[connect, wait(700), read, read]));
        assert_eq!((early.connected, early.dropped), (1, 0), "{device}");
        let late = attack(&script(device, &[connect, wait(700), wait(700), read]));
        assert_eq!((late.connected, late.dropped), (1, 1), "{device}");
    }
}

#[test]
fn a_newcomer_is_welcome_beside_a_guest_that_never_rests() {
    let mut guest = guest();
    let reached = hcall_device(0, vnic_device, &[], |around| {
        guest(around);
        welcome(around, |around| assert_eq!(guest(around), 1));
        1
    });
    assert_eq!(reached.honest, 2);
}

#[test]
fn scripts_reach_messages_and_calls() {
    for (name, input) in seeds() {
        let r = attack(&input);
        let reached = match name {
            "pci_e1000" | "pci_mlx5" => r.answers > 300,
            _ => (r.welcome, r.calls) == (2, 2),
        };
        assert!(reached && r.honest > 1 && r.connected > 0, "{name}: {r:?}");
    }
}

/// Returns the scripts, with the names of their files.
fn seeds() -> Vec<Seed> {
    let act = |what: u8, who: u8, kind: u8, n: u8, v: [u8; 4]| {
        [what, who, kind, n, v[0], v[1], v[2], v[3]]
    };
    let turns = act(15, 0, 0, 7, [0; 4]);
    let client = [
        act(0, 0, 1, 0, [0; 4]),
        turns,
        // Information, a map, bus mastering, registers.
        act(3, 0, 3, 0, [0; 4]),
        act(3, 0, 4, 0, [0; 4]),
        act(3, 0, 5, 0, [0; 4]),
        act(3, 0, 1, 0, [0, 0x10, 0, 0]),
        act(3, 0, 11, 0, [4, 0, 0, 0]),
        act(3, 0, 7, 0, [8, 0, 0, 0]),
        act(3, 0, 8, 0, [0, 1, 0, 0]),
        turns,
        act(14, 0, 0, 0, [0; 4]),
        // A frame from the wire, half a message, another client, and the first goes.
        act(13, 0, 0, 60, [0xff; 4]),
        act(4, 0, 8, 20, [0; 4]),
        act(0, 1, 1, 0, [0; 4]),
        act(1, 0, 0, 0, [0; 4]),
        turns,
        act(14, 1, 0, 0, [0; 4]),
    ];
    let of = |who: u8| {
        [
            act(0, who, 1, 0, [0; 4]),
            act(6, who, 0, 0, [0; 4]),
            act(7, who, 0, 0, [0; 4]),
            act(8, who, 0, 0, [1, 0, 0, 0]),
            act(8, who, 0, 0, [1, 0, 0, 0]),
            act(14, who, 0, 0, [0; 4]),
        ]
    };
    let last = [
        // Its call area, a command, a frame, its end.
        act(10, 0, 1, 0, [0xff; 4]),
        act(12, 0, 0, 0, [0; 4]),
        act(13, 0, 0, 60, [0xff; 4]),
        act(1, 0, 0, 0, [0; 4]),
        turns,
    ];
    let guests = [&of(0)[..], &of(1), &last].concat();
    vec![
        ("pci_e1000", script(0, &client)),
        ("pci_mlx5", script(1, &client)),
        ("vnic", script(2, &guests)),
        ("veth", script(3, &guests)),
    ]
}

#[test]
fn seed_files_are_these_scripts() {
    files::check_seeds("serve_clients", &seeds());
}
