use super::*;

fn chart(places: Places) -> Chart {
    let line =
        |label: &str, values: &[f64]| Line { label: label.to_owned(), values: values.to_vec() };
    Chart {
        title: "a run".to_owned(),
        x: "traffic.mss, B".to_owned(),
        y: "payload, Gbit/s".to_owned(),
        places,
        lines: vec![
            line("copy_align on", &[0.5, 0.25, 0.9]),
            line("copy_align off", &[0.4, 0.3, 0.8]),
        ],
    }
}

#[test]
fn the_same_numbers_give_the_same_bytes() {
    let of = |_| chart(Places::Numbers(vec![64.0, 512.0, 1460.0])).svg().unwrap();
    assert_eq!(of(0), of(1));
}

#[test]
fn axes_and_lines_are_named_and_no_background_is_drawn() {
    let text = chart(Places::Numbers(vec![64.0, 512.0, 1460.0])).svg().unwrap();
    for word in
        ["a run", "traffic.mss, B", "payload, Gbit/s", "copy_align on", "copy_align off", "500"]
    {
        assert!(text.contains(&format!("\n{word}\n")), "{word}:\n{text}");
    }
    for colour in ["#D66214", "#267ED6"] {
        let line =
            text.lines().rfind(|l| l.starts_with("<polyline") && l.contains(colour)).unwrap();
        assert_eq!(line.matches(',').count(), 3, "three points: {line}");
    }
    assert!(!text.contains("#FFFFFF") && !text.contains("#000000"), "{text}");
}

#[test]
fn steps_by_a_factor_have_an_axis_of_powers() {
    let marks = |values: &[f64]| -> Vec<i32> {
        let text = chart(Places::Numbers(values.to_vec())).svg().unwrap();
        let line = text.lines().rfind(|l| l.starts_with("<polyline") && l.contains("#267ED6"));
        let points = line.unwrap().split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        points.split_whitespace().map(|p| p.split(',').next().unwrap().parse().unwrap()).collect()
    };
    let gap = |values: &[f64]| {
        let x = marks(values);
        f64::from(x[1] - x[0]) / f64::from(x[2] - x[0])
    };
    assert!((gap(&[1.0, 10.0, 100.0]) - 0.5).abs() < 0.01);
    assert!((gap(&[100.0, 200.0, 300.0]) - 0.5).abs() < 0.01);
    assert!((gap(&[0.0, 10.0, 100.0]) - 0.1).abs() < 0.01);
    let text = chart(Places::Numbers(vec![64.0, 256.0, 1024.0])).svg().unwrap();
    for tick in ["100", "200", "500", "1000"] {
        assert_eq!(text.matches(&format!("\n{tick}\n")).count(), 1, "{tick}");
    }
}

#[test]
fn words_stand_side_by_side() {
    let words = ["off", "auto", "64240"].map(str::to_owned).to_vec();
    let text = chart(Places::Words(words)).svg().unwrap();
    for word in ["off", "auto", "64240"] {
        assert_eq!(text.matches(&format!("\n{word}\n")).count(), 1, "{word}");
    }
}

#[test]
fn the_axis_starts_at_zero_unless_all_lies_far_above() {
    assert_eq!(range([0.1, 0.9].into_iter(), true).0, 0.0);
    assert!(range([0.8, 0.9].into_iter(), true).0 > 0.7);
    assert!(range([5.0, 5.0].into_iter(), true).1 > 5.0);
    assert!(range([-1.0, 1.0].into_iter(), true).0 < -1.0);
}

#[test]
fn ticks_have_no_zeros_at_their_end() {
    assert_eq!([0.0, 0.25, 1460.0, 0.5].map(number), ["0", "0.25", "1460", "0.5"]);
}
