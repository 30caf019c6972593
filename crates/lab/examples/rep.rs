fn main() {
    let mut o = doorbell_lab::figures::Options::default();
    o.sensitivity = std::env::args().any(|a| a == "s");
    o.swap = std::env::args().any(|a| a == "w");
    let t = std::time::Instant::now();
    match doorbell_lab::figures::reproduce(&mut doorbell_lab::systems().unwrap(), &o, &mut |_| {}) { Ok(r) => println!("{}\n{:?}", r.to_table(), r.verdict()), Err(e) => println!("{e}") }
    eprintln!("{:?}", t.elapsed());
}
