//! Pages of `report`: their sentences, tables and drawings have the numbers of the files.

use crate::common::{good, result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The page of a directory.
fn page(dir: &Path, chosen: &[&str]) -> String {
    let at = dir.to_str().unwrap();
    let said = good(&[&["report", at], chosen].concat());
    assert_eq!(said, format!("{at}/report.html\n"));
    fs::read_to_string(dir.join("report.html")).unwrap()
}

/// The text of a page, with a line for each element.
fn text(page: &str) -> String {
    // A name may be broken behind its underscores.
    let page = page[page.find("<body>").unwrap()..].replace("<wbr>", "");
    let parts = page.split('<').map(|p| p.split_once('>').map_or(p, |(_, text)| text));
    let lines: Vec<&str> = parts.map(str::trim).filter(|t| !t.is_empty()).collect();
    let text = lines.join("\n");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The cells of a row of the first table whose row begins so.
fn row(page: &str, first: &str) -> Vec<String> {
    let row = page.split("<tr").find(|r| text(&format!("<body><tr{r}")).starts_with(first));
    let row = row.unwrap_or_else(|| panic!("no row {first}"));
    let cells = row.split("</t").map(|c| text(&format!("<body><t{c}")).replace('\n', ""));
    cells.filter(|c| !c.is_empty()).collect()
}

fn per_packet(run: &Value, names: &[&str]) -> f64 {
    names.iter().map(|n| run["per_packet"][n].as_f64().unwrap_or(0.0)).sum()
}

#[test]
fn two_runs_begin_with_what_differs_and_what_limits() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "</style><script>alert(1)</script>";
    let mut runs = Vec::new();
    for side in ["off", "on"] {
        let mpwqe = format!("driver.mpwqe={side}");
        let set = ["--set", "traffic.packets=24000", "--set", "traffic.rate=30", "--set", &mpwqe];
        let out = good(&[&["run", "mlx5-pktgen-64", "--format", "json"], &set[..]].concat());
        let mut run = result(&out);
        fs::create_dir(dir.path().join(side)).unwrap();
        if side == "off" {
            run["scenario"] = evil.into();
        }
        fs::write(dir.path().join(side).join("result.json"), run.to_string()).unwrap();
        runs.push(run);
    }
    let page = page(dir.path(), &["off", "on"]);
    assert!(!page.contains("<script") && page.matches("</style>").count() == 1);
    let text = text(&page);
    assert!(text.contains(evil), "a name stays a name");

    let names = ["tlp", "pad", "gap"]
        .map(|n| [format!("pcie_down_{n}_bytes"), format!("pcie_up_{n}_bytes")]);
    let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let [off, on] = [&runs[0], &runs[1]].map(|r| per_packet(r, &names));
    let fewer = format!("{:.1} % fewer bytes on the bus", 100.0 * (1.0 - on / off));
    let title = text.lines().find(|l| l.contains("is as fast as")).unwrap();
    assert!(title.starts_with("on is as fast as off, ") && title.ends_with(&fewer), "{title}");
    for (name, count) in runs[0]["per_packet"].as_object().unwrap() {
        assert!(count == 0.0 || text.contains(name), "{name} is no row of the page");
    }
    for (side, run) in ["off", "on"].iter().zip(&runs) {
        let said = run["limit"]["said"].as_str().unwrap().strip_prefix("load: ").unwrap();
        assert!(text.contains(&format!("{side} is limited by its load: {said}")), "{text}");
    }
    // Rates by interest, without a judgement where they are the same within their errors.
    let rates: Vec<String> = page
        .split("<code class=\"name\">")
        .skip(1)
        .map(|c| c[..c.find("</code>").unwrap()].replace("<wbr>", ""))
        .collect();
    assert_eq!(rates[..2], ["packets_per_s", "frame_bits_per_s"]);
    assert!(!page.contains("span class=\"miss\""), "{text}");
    // A bar is as long as its sum is large, and its parts fill it.
    let bar = page.split("<div class=\"bar\"").nth(2).unwrap();
    let width = bar.split("width:").nth(1).unwrap().split('%').next().unwrap();
    let cycles = [&runs[0], &runs[1]].map(|r| r["per_packet"]["cycles"].as_f64().unwrap());
    assert!((width.parse::<f64>().unwrap() / 100.0 / (cycles[1] / cycles[0]) - 1.0).abs() < 0.001);
    let flex = bar[..bar.find("</div>").unwrap()].split("flex:").skip(1);
    let filled: f64 = flex.map(|f| f.split(';').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!((filled - 1.0).abs() < 0.001, "{filled}");
    for fact in [
        "doorbell run mlx5-pktgen-64 --set traffic.packets=24000 --set traffic.rate=30 --set \
         driver.mpwqe=on",
        &format!("mlx5-gen2, SHA-256 {}", &runs[1]["profile_sha256"].as_str().unwrap()[..12]),
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    assert!(page.contains("<title>off, on · Doorbell</title>"));
}

#[test]
fn sweeps_and_rankings_begin_with_a_sentence_and_show_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, args: &[&str]| {
        let out = good(&[args, &["--format", "json"]].concat());
        fs::write(dir.path().join(name), &out).unwrap();
        result(&out)
    };
    let sizes = put(
        "sizes.json",
        &[
            "sweep",
            "mlx5-pktgen-64",
            "--set",
            "traffic.packets=4000",
            "--over",
            "traffic.size=64,128,256",
            "--across",
            "driver.mpwqe=off,on",
            "--show",
            "cycles",
            "--show",
            "packets_per_s",
        ],
    );
    let sides =
        ["--side", "fixed: driver.controller=fixed", "--side", "dim: driver.controller=dim"];
    let by = ["--by", "rx_interrupts_per_s", "--by", "latency_ns.p99"];
    let rank = |scenario, ms| [&["rank", scenario, "--set", ms][..], &sides].concat();
    let ranked = put(
        "moderation.json",
        &[
            &rank("axienet-sporadic", "traffic.duration=10 ms")[..],
            &by,
            &["--show", "cpu_busy_share"],
        ]
        .concat(),
    );
    put(
        "seeds.json",
        &[&rank("axienet-sporadic", "traffic.duration=5 ms")[..], &by, &["--seeds", "1-3"]]
            .concat(),
    );
    put(
        "time.json",
        &[
            &rank("axienet-steps", "traffic.duration=10 ms")[..],
            &["--series", "setting_packets", "--every", "2"],
        ]
        .concat(),
    );
    put(
        "advice.json",
        &[
            "advise",
            "mlx5-pktgen-64",
            "--set",
            "traffic.packets=4000",
            "--over",
            "driver.moderation_period=0,16",
            "--goal",
            "latency_ns.p99",
        ],
    );
    // Another program's file, and a result that a page does not show.
    fs::write(dir.path().join("other.json"), "[]").unwrap();
    put("list.json", &["list"]);
    let all = page(dir.path(), &[]);
    let said = text(&all);
    let heads: Vec<String> =
        all.split("<h2>").skip(1).map(|h| h[..h.find('<').unwrap()].into()).collect();
    assert_eq!(
        heads,
        [
            "Sweep: sizes",
            "Ranking: moderation",
            "Ranking: seeds",
            "Ranking: time",
            "Advise: advice",
        ]
    );
    let mut cells: Vec<(f64, String)> = Vec::new();
    for row in sizes["rows"].as_array().unwrap() {
        for (side, value) in row["values"]["cycles"].as_object().unwrap() {
            let at = format!("traffic.size={}, driver.mpwqe={side}", row["keys"]["traffic.size"]);
            cells.push((value.as_f64().unwrap(), at));
        }
    }
    cells.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, most) = (&cells[0], cells.last().unwrap());
    let title = said.lines().find(|l| l.starts_with("sizes: cycles from")).unwrap();
    assert_eq!(
        title,
        format!("sizes: cycles from {:.2} at {} to {:.2} at {}", least.0, least.1, most.0, most.1)
    );
    assert!(said.contains("driver.mpwqe=on instead of off changes cycles by −"), "{said}");
    let first = &sizes["rows"][0]["values"]["cycles"];
    let wanted = ["off", "on"].map(|side| format!("{:.2}", first[side].as_f64().unwrap()));
    assert_eq!(row(&all, "64 B"), ["64 B", &wanted[0], &wanted[1]]);
    let [fixed, _] = [0, 1].map(|i| &ranked["rows"][i]);
    let cells = row(&all, "axienet-sporadic");
    assert_eq!(cells[1], "fixed");
    assert!(
        cells[2].starts_with(&format!(
            "{:.2}",
            fixed["values"]["rx_interrupts_per_s"].as_f64().unwrap()
        )),
        "{cells:?}"
    );
    for command in [
        "doorbell sweep mlx5-pktgen-64 --over traffic.size=64,128,256 --across driver.mpwqe=off,on \
         --show cycles --show packets_per_s --set traffic.packets=4000",
        "--side fixed:driver.controller=fixed --side dim:driver.controller=dim --by \
         rx_interrupts_per_s --by latency_ns.p99 --show cpu_busy_share --noise 5 --set \
         'traffic.duration=10 ms'",
        "--series setting_packets --every 2",
        "ethtool -C $NIC adaptive-tx off tx-usecs 0",
    ] {
        assert!(said.contains(command), "{command}: {said}");
    }
    // A side has one colour in all charts.
    let colour = |at: &str| {
        let legend = &all[all.find(at).unwrap()..];
        let legend = &legend[legend.find("--swatch:").unwrap() + 9..];
        legend[..legend.find('"').unwrap()].to_owned()
    };
    assert_eq!(colour("Ranking: moderation"), colour("Ranking: time"));
    let one = page(dir.path(), &["sizes"]);
    assert!(one.contains("Sweep: sizes") && !one.contains("Ranking:"));
}

#[test]
fn guests_begin_with_what_the_second_kernel_changes() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let dir = tempfile::tempdir().unwrap();
    let files = ["linux-6.1.json", "linux-7.3.json"].map(|f| kept.join(f));
    let mut one: Value = serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap();
    one["command"] =
        serde_json::json!(["guest", "mlx5", "--kernel", "debian:6.1", "--set", "a=b c"]);
    fs::write(dir.path().join("linux-6.1.json"), one.to_string()).unwrap();
    let [a, b] = files.each_ref().map(|f| f.to_str().unwrap());
    let both = result(&good(&["compare", a, b, "--format", "json"]));
    fs::write(dir.path().join("both.json"), both.to_string()).unwrap();
    let text = text(&page(dir.path(), &["both", "linux-6.1"]));
    let runs = both["runs"].as_array().unwrap().iter().filter(|r| r["workload"] == "pktgen");
    let sent: Vec<f64> =
        runs.map(|r| r["instructions"]["driver_transmit"].as_f64().unwrap()).collect();
    let change = 100.0 * (sent[1] / sent[0] - 1.0);
    let title = text.lines().find(|l| l.starts_with("both: a packet of pktgen takes")).unwrap();
    assert!(title.contains("transmit instructions of mlx5_core on debian:6.1 A, "), "{title}");
    assert!(title.ends_with(&format!("on debian:7.3 B (+{change:.1} %)")), "{title}");
    assert!(text.contains("mlx5e_tx_skb_update_ts_flags"), "functions of both kernels");
    // One file has its command, and what was put together of two has none.
    let commands = text.matches("doorbell guest mlx5 --kernel debian:6.1 --set 'a=b c'");
    assert_eq!(commands.count(), 1, "{text}");
}
