use super::*;
use std::sync::atomic::Ordering;

fn called(line: &str, caller: &Arc<Caller>) -> Result<(u8, String), Failure> {
    let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
    call(&DOORBELL, &args, caller)
}

#[test]
fn a_call_returns_what_the_command_prints() {
    let none = Arc::default();
    let run = "run mlx5-pktgen-64 --set traffic.packets=480 --no-limits --format ndjson";
    let (code, out) = called(run, &none).unwrap();
    assert!(code == 0 && out.starts_with("{\"scenario\":\"mlx5-pktgen-64\""), "{out}");
    // The next one has its own alone.
    let (_, list) = called("list --format csv", &none).unwrap();
    assert!(list.contains("mlx5-pktgen-64") && !list.contains("\"scenario\":"), "{list}");
}

#[test]
fn a_failure_tells_the_place() {
    let failed = |line: &str| called(line, &Arc::default()).unwrap_err();
    let e = failed("run mlx5-pktgen-64 --set pcie.mps=3");
    assert_eq!((e.code, e.place.as_str()), (2, "--set pcie.mps=3"));
    assert!(e.what.starts_with("`pcie.mps` cannot be 3 B; allowed: 128"), "{}", e.what);
    let e = failed("run --no-such-option");
    assert!(e.code == 2 && e.what.starts_with("unexpected argument"), "{}", e.what);
}

#[test]
fn a_call_ends_when_its_caller_wants() {
    let caller = Arc::new(Caller::default());
    let done = std::thread::scope(|scope| {
        let line = "run mlx5-pktgen-64 --set traffic.packets=1e9";
        let called = scope.spawn(|| called(line, &caller));
        std::thread::sleep(std::time::Duration::from_millis(50));
        caller.stop.store(true, Ordering::Relaxed);
        called.join().unwrap()
    });
    assert_eq!(done.unwrap_err().code, 130);
}

#[test]
fn a_caller_is_told_how_much_is_done() {
    let caller = Arc::new(Caller::default());
    assert_eq!(caller.progress(), (0, 0));
    let line = "sweep mlx5-pktgen-64 --set traffic.packets=480 --over pcie.mps=128,256 --quiet";
    assert_eq!(called(line, &caller).unwrap().0, 0);
    assert_eq!(caller.progress(), (2, 2));
}
