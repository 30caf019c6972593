use super::*;
use serde_json::json;

#[test]
fn values_are_the_same_to_the_last_bit_whatever_their_column_made_of_them() {
    for (a, b) in [
        (json!(1), json!(1.0)),
        (json!(0.1), json!(0.1)),
        (json!("8"), json!(8)),
        (json!("true"), json!(true)),
        (json!(null), json!(null)),
        (json!("off"), json!("off")),
    ] {
        assert!(same(&a, &b), "{a} {b}");
    }
    let next = f64::from_bits(0.1f64.to_bits() + 1);
    for (a, b) in [
        (json!(0.1), json!(next)),
        (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64)),
        (json!(null), json!(0)),
        (json!("on"), json!("off")),
        (json!(""), json!(null)),
    ] {
        assert!(!same(&a, &b), "{a} {b}");
    }
}
