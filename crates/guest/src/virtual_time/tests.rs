use super::{Error, Measured, Script, check, check_wall, result, windows};
use crate::Workload;
use crate::bring_up::Steps;
use crate::console::Message;
use std::fs;
use std::path::Path;

fn workload(name: &str) -> Workload {
    Workload::find(name).unwrap()
}

#[test]
fn workloads_with_commands_or_programs_are_refused() {
    let runs = |name: &str| check(1, &[workload(name)]).is_ok();
    let names: Vec<String> = Workload::built_in().map(|w| w.name).filter(|n| !runs(n)).collect();
    assert_eq!(names, ["testpmd"]);
    assert!(check(2, &[workload("pktgen")]).unwrap_err().to_string().contains("--cpus 2"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("own.sh");
    fs::write(&path, "begin\nhost ls\nend\n").unwrap();
    let own = Workload::find(path.to_str().unwrap()).unwrap();
    assert!(check_wall(std::slice::from_ref(&own)).is_ok());
    let refused = check(1, &[own]).unwrap_err().to_string();
    assert!(refused.contains("`host` runs no command in virtual time"), "{refused}");
    let refused = check_wall(&[workload("arrivals")]).unwrap_err().to_string();
    assert!(refused.contains("`arrivals` needs --clock virtual"), "{refused}");
}

/// The result of `receive` alone, by words in a directory.
fn read(directory: &Path, messages: &[Message]) -> Result<Measured, Error> {
    let window = windows(directory, 1).unwrap().remove(0);
    result(&workload("receive"), window, messages)
}

#[test]
fn counts_are_of_the_last_window() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "workload 0\ntime_ps 1000\n",
        "begin\ntime_ps 5000000\nledger.mmio_reads 7\ndropped 1\n",
        "frames 3 60 1 10\ntime_ps 6000000\n",
        // The first and the last of three frames are 2 us apart.
        "end 3\ntime_ps 9000000\nledger.mmio_reads 9\ndropped 1\noffered.frames 3\n\
         offered.first_ps 6000000\noffered.last_ps 8000000\nanswers 2\n\
         latency_ps.min 1500\nlatency_ps.p50 1500\nlatency_ps.max 4000\n",
    ];
    for (n, text) in words.iter().enumerate() {
        fs::write(dir.path().join(n.to_string()), text).unwrap();
    }
    let measured = read(dir.path(), &[]).unwrap();
    let timed = measured.timed.unwrap();
    assert_eq!((timed.offered_per_s, timed.sent_per_s, timed.dropped), (Some(1e6), None, 0));
    let latencies = ["min", "p50", "max"].map(|name| timed.latency_ns[name]);
    assert_eq!((timed.answers, latencies), (2, [1.5, 1.5, 4.0]));
    assert_eq!((measured.packets, measured.frames), (3, 3));
    assert_eq!(measured.elapsed.as_nanos(), 4000);
    assert_eq!(measured.counts.ledger["mmio_reads"], 2);

    fs::remove_file(dir.path().join("3")).unwrap();
    let missing = read(dir.path(), &[]).unwrap_err();
    assert_eq!(missing.to_string(), "receive: it did not come to `end`");
}

#[test]
fn failed_steps_are_told_with_their_output() {
    let steps: Steps = vec![
        ("uname -r".to_owned(), None),
        ("[ -e /x ]".to_owned(), Some("there is no x".to_owned())),
        ("insmod /m/y.ko".to_owned(), None),
    ];
    let script = Script { steps, symbols: None, first: 3, last: 3 };
    let printed = |text: &str| script.printed(text).map_err(|e| e.to_string());
    let begun = "boot\n<<<up 1.0>>>\n6.12\n<<<done 0>>>\n";
    let all = printed(&format!("{begun}<<<done 0>>>\n<<<begin>>>\nhello\n<<<done 0>>>\n")).unwrap();
    assert_eq!((all.len(), all[0][0].before.trim(), all[2][1].before.trim()), (3, "6.12", "hello"));
    let failed = printed(&format!("{begun}<<<done 1>>>\n")).unwrap_err();
    assert!(failed.starts_with("there is no x"), "{failed}");
    let failed = printed(&format!("{begun}<<<done 0>>>\nno such symbol\n<<<done 1>>>\n"));
    let failed = failed.unwrap_err();
    assert!(failed.contains("insmod /m/y.ko") && failed.contains("no such symbol"), "{failed}");
    assert_eq!(printed(begun).unwrap().len(), 1);
}

#[test]
fn a_workload_that_fails_loses_no_other() {
    let steps: Steps = ["uname -r", "a", "b", "dmesg"].map(|line| (line.to_owned(), None)).into();
    let script = Script { steps, symbols: None, first: 1, last: 3 };
    assert!(script.text().contains("step 'uname -r'\nwork 'a'\nwork 'b'\nstep"));
    let said = "<<<up 1.0>>>\n6.12\n<<<done 0>>>\nno such file\n<<<done 2>>>\n<<<done 0>>>\n";
    let all = script.printed(&format!("{said}<<<done 0>>>\n")).unwrap();
    assert_eq!(all.len(), 4);
    let error = result(&workload("receive"), None, &all[1]).unwrap_err().to_string();
    assert_eq!(error, "in the guest `the workload receive` ended with 2: no such file");
}
