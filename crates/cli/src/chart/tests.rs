use super::*;

fn chart(places: &[f64], words: &[&str]) -> Chart {
    let line = |label: &str, values: [f64; 3]| Line {
        label: label.to_owned(),
        points: places.iter().copied().zip(values).collect(),
    };
    let lines =
        vec![line("copy_align on", [0.5, 0.25, 0.9]), line("copy_align off", [0.4, 0.3, 0.8])];
    let words = words.iter().map(|w| (*w).to_owned()).collect();
    Chart {
        title: "a run".to_owned(),
        x: "traffic.mss, B".to_owned(),
        y: "payload, Gbit/s".to_owned(),
        plot: Plot { words, lines, units: ("B".into(), "Gbit/s".into()), ..Plot::default() },
    }
}

const SIZES: [f64; 3] = [64.0, 512.0, 1460.0];

/// The places of the points of a line, by its colour.
fn places(text: &str, colour: &str) -> Vec<(f64, f64)> {
    let line = text.lines().rfind(|l| {
        l.starts_with("<path d=\"M") && l.contains("fill=\"none\"") && l.contains(colour)
    });
    let path = line.unwrap().split('"').nth(1).unwrap();
    let points = path[1..].split('L').map(|p| p.split_once(' ').unwrap());
    points.map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).collect()
}

#[test]
fn the_same_numbers_give_the_same_bytes() {
    assert_eq!(chart(&SIZES, &[]).svg(), chart(&SIZES, &[]).svg());
}

#[test]
fn axes_and_lines_are_named_and_no_background_is_drawn() {
    let text = chart(&SIZES, &[]).svg();
    for word in
        ["a run", "traffic.mss, B", "payload, Gbit/s", "copy_align on", "copy_align off", "500"]
    {
        assert!(text.contains(&format!(">{word}</text>")), "{word}:\n{text}");
    }
    for colour in ["#d66214", "#267ed6"] {
        assert_eq!(places(&text, colour).len(), 3);
    }
    assert!(!text.contains("<rect"), "{text}");
}

#[test]
fn a_mark_tells_its_numbers() {
    let text = chart(&SIZES, &[]).svg();
    assert!(text.contains("<title>copy_align off, 512 B: 0.3 Gbit/s</title>"), "{text}");
}

#[test]
fn text_of_others_is_never_markup() {
    let mut evil = chart(&SIZES, &[]);
    evil.plot.lines[0].label = "</title><script>".into();
    evil.title = "<b>".into();
    let text = evil.svg();
    assert!(!text.contains("<script>") && !text.contains("<b>"), "{text}");
}

#[test]
fn points_lie_where_the_axes_say() {
    let text = chart(&[0.0, 100.0, 200.0], &[]).svg();
    // The ticks 0 and 200 of the horizontal axis, and 0 and 0.8 of the vertical one.
    let place = |tick: &str, of: &str| -> f64 {
        let end = format!(">{tick}</text>");
        let line = text.lines().find(|l| {
            l.ends_with(&end) && l.contains(if of == "x=" { "\"middle\"" } else { "\"end\"" })
        });
        let at = line.unwrap().split(of).nth(1).unwrap();
        at.split('"').nth(1).unwrap().parse().unwrap()
    };
    let points = places(&text, "#267ed6");
    for (i, tick) in ["0", "100", "200"].into_iter().enumerate() {
        assert!((points[i].0 - place(tick, "x=")).abs() < 0.11, "{tick}: {points:?}");
    }
    let [zero, most] = ["0", "0.8"].map(|tick| place(tick, "y=") - 4.0);
    for (i, share) in [0.5, 0.375, 1.0].into_iter().enumerate() {
        let wanted = zero + share * (most - zero);
        assert!((points[i].1 - wanted).abs() < 0.3, "{wanted}: {points:?}");
    }
}

#[test]
fn steps_by_a_factor_have_an_axis_of_powers() {
    let gap = |values: &[f64]| {
        let x = places(&chart(values, &[]).svg(), "#267ed6");
        (x[1].0 - x[0].0) / (x[2].0 - x[0].0)
    };
    assert!((gap(&[1.0, 10.0, 100.0]) - 0.5).abs() < 0.01);
    assert!((gap(&[100.0, 200.0, 300.0]) - 0.5).abs() < 0.01);
    assert!((gap(&[0.0, 10.0, 100.0]) - 0.1).abs() < 0.01);
    let text = chart(&[64.0, 256.0, 1024.0], &[]).svg();
    for tick in ["100", "200", "500", "1000"] {
        assert_eq!(text.matches(&format!(">{tick}</text>")).count(), 1, "{tick}");
    }
}

#[test]
fn words_stand_side_by_side() {
    let text = chart(&[0.0, 1.0, 2.0], &["off", "auto", "64240"]).svg();
    for word in ["off", "auto", "64240"] {
        assert_eq!(text.matches(&format!(">{word}</text>")).count(), 1, "{word}");
    }
    assert!(text.contains("<title>copy_align on, auto: 0.25 Gbit/s</title>"));
}

#[test]
fn a_value_that_holds_until_the_next_one_is_a_step() {
    let mut plot = chart(&SIZES, &[]).plot;
    plot.steps = true;
    let line = plot.path(&plot.lines[0], &|p| p);
    assert_eq!(line, "M64 0.5H512V0.2H1460V0.9");
}

#[test]
fn the_axis_starts_at_zero_unless_all_lies_far_above() {
    assert_eq!(range([0.1, 0.9].into_iter(), true).0, 0.0);
    assert!(range([0.8, 0.9].into_iter(), true).0 > 0.7);
    assert!(range([5.0, 5.0].into_iter(), true).1 > 5.0);
    assert!(range([-1.0, 1.0].into_iter(), true).0 < -1.0);
}

#[test]
fn ticks_are_multiples_that_people_write() {
    assert_eq!(ticks((0.0, 1.0), 5), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
    assert_eq!(ticks((0.0, 0.03), 3), [0.0, 0.01, 0.02, 0.03]);
    assert_eq!(ticks((35.0, 1470.0), 3), [500.0, 1000.0]);
    assert_eq!(ticks((-1.1, 1.1), 5), [-1.0, -0.5, 0.0, 0.5, 1.0]);
    assert_eq!([0.0, 0.25, 1460.0, 0.5].map(number), ["0", "0.25", "1460", "0.5"]);
}
