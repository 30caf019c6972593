//! Mixes of packet sizes: `60:7,590:4,1514:1`, sizes in bytes without FCS with their weights.

/// The words of a mix.
pub const WORDS: [&str; 2] = ["off", "imix"];
/// The values that are allowed besides, for messages.
pub const ALLOWED: &str = "SIZE:WEIGHT,… with sizes from 42 to 16384 B, without FCS";
/// The simple IMIX: 7 parts of the shortest frames, 4 of 576-byte packets, 1 of the longest.
const IMIX: &str = "60:7,590:4,1514:1";

/// Parses a mix: sizes with their weights. `None` if it is none.
pub fn parse(text: &str) -> Option<Vec<(u32, f64)>> {
    let text = if text == "imix" { IMIX } else { text };
    let part = |part: &str| {
        let (size, weight) = part.split_once(':')?;
        let (size, weight): (u32, f64) = (size.trim().parse().ok()?, weight.trim().parse().ok()?);
        let allowed = (42..=16384).contains(&size) && weight > 0.0 && weight.is_finite();
        allowed.then_some((size, weight))
    };
    text.split(',').map(part).collect()
}
