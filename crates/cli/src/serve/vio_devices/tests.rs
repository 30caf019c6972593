use super::*;

#[test]
fn a_command_is_a_verb_and_a_partition() {
    let mut d = VnicServer::new(vnic::Config::POWERVM, 2);
    let mut said = |line| Backend::command(&mut d, 2, Time::ZERO, line);
    for line in ["failover", "failover 1", " migrate  0 ", "error 1", "link up", "link down 1"] {
        assert_eq!(said(line), Ok(()), "{line}");
    }
    for line in [
        "",
        "failover 2",
        "failover 0 1",
        "failover x",
        "link",
        "link 1",
        "link sideways",
        "fail",
        "migrate up",
    ] {
        let why = said(line).expect_err(line).to_string();
        assert!(why.starts_with(&format!("`{line}` is not a command; there are failover, ")));
    }
}
