use super::*;

fn set(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn each_kind_of_key_has_its_command() {
    let all = set(&[
        ("ethtool.priv.skb_tx_mpwqe", "on"),
        ("ethtool.coalesce.rx-usecs", "3"),
        ("mtu", "9000"),
        ("module.debug", "1; x"),
        ("size", "64"),
    ]);
    assert_eq!(
        commands(&all),
        [
            "ethtool --set-priv-flags $NIC 'skb_tx_mpwqe' 'on'",
            "ethtool -C $NIC 'rx-usecs' '3'",
            "ip link set $NIC mtu '9000'",
        ]
    );
    assert_eq!(parameters(&all), " 'debug=1; x'");
}

#[test]
fn a_key_that_nobody_knows_is_refused_with_those_that_are_known() {
    let loads = [Workload::find("pktgen").unwrap()];
    check(&set(&[("size", "64"), ("mtu", "1500"), ("ethtool.ring.tx", "64")]), &loads).unwrap();
    for key in ["sise", "ethtool.ring.", "module.", "ethtool.x.y"] {
        let wrong = check(&set(&[(key, "1")]), &loads).unwrap_err().to_string();
        assert!(wrong.starts_with(&format!("--set {key}: ")) && wrong.contains("burst"), "{wrong}");
    }
}
