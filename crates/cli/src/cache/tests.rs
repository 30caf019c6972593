use super::*;
use serde_json::json;
use std::fs::File;

/// Numbers of a run, one of which needs all digits of a float.
fn outcome(packets: u64) -> Outcome {
    let json = json!({
        "packets": packets, "seconds": 0.1 + 0.2,
        "numbers": [
            { "name": "packets_per_s", "value": 1.0 / 3.0, "error": 0.1 },
            { "name": "maps", "value": 1.0 },
        ],
        "steady": true, "limit": "core", "limit_share": 1.0, "audit": [], "outcome": "sound",
    });
    serde_json::from_value(json).unwrap()
}

fn key(n: u8) -> String {
    format!("{n:02x}{n:062x}")
}

#[test]
fn numbers_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 1 << 20, true).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    cache.put(&key(1), &outcome(3)).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), Some(outcome(3)));
    assert_eq!(parse(&text(&outcome(3))).unwrap(), outcome(3));
}

#[test]
fn a_change_or_a_cut_is_noticed() {
    let good = text(&outcome(3)).into_bytes();
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 1;
        let changed = std::str::from_utf8(&changed).ok();
        assert_eq!(changed.and_then(parse), None, "byte {at}");
        assert_eq!(parse(std::str::from_utf8(&good[..at]).unwrap()), None, "{at} bytes");
    }
}

#[test]
fn the_cache_loses_what_was_used_longest_ago() {
    let dir = tempfile::tempdir().unwrap();
    // A file takes a block of 4 KiB: 16 of them fill it, and 14 stay.
    let cache = Cache::open(dir.path(), 16 * 4096, true).unwrap();
    let old = |n: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + n);
    let put = |n: u8| {
        cache.put(&key(n), &outcome(u64::from(n))).unwrap();
        let file = File::open(cache.path(&key(n))).unwrap();
        file.set_modified(old(n.into())).unwrap();
    };
    (0..17).for_each(put);
    // Not its own.
    let others = [dir.path().join("notes"), dir.path().join("00/notes")];
    others.iter().for_each(|f| fs::write(f, "mine").unwrap());
    let begun = dir.path().join("00/.result-x.partial");
    fs::write(&begun, "half").unwrap();
    File::open(&begun).unwrap().set_modified(old(0)).unwrap();
    // The oldest is used.
    assert!(cache.get(&key(0)).unwrap().is_some());
    cache.trim();
    let there: Vec<u8> = (0..17).filter(|n| cache.path(&key(*n)).exists()).collect();
    assert_eq!(there, [&[0][..], &(4..17).collect::<Vec<u8>>()].concat());
    assert!(others.iter().all(|f| f.exists()) && !begun.exists());
}

#[test]
fn a_pipe_in_the_cache_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 1 << 20, true).unwrap();
    let path = cache.path(&key(1));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), None);
    cache.put(&key(1), &outcome(3)).unwrap();
    assert_eq!(cache.get(&key(1)).unwrap(), Some(outcome(3)));
}
