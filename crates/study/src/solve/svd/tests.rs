use super::*;
use proptest::prelude::*;

#[test]
fn a_sum_is_one_direction() {
    // Two columns that are the same, and one beside them.
    let columns = [vec![1.0, 2.0, 0.0], vec![1.0, 2.0, 0.0], vec![0.0, 0.0, 3.0]];
    let all = decompose(&columns);
    assert!((all[0].value - 10f64.sqrt()).abs() < 1e-12 && (all[1].value - 3.0).abs() < 1e-12);
    assert!(all[2].value < 1e-12, "{all:?}");
    let null = &all[2].right;
    assert!((null[0] + null[1]).abs() < 1e-12 && null[2].abs() < 1e-12, "{null:?}");
}

#[test]
fn more_columns_than_rows_have_null_directions() {
    let all = decompose(&[vec![1.0], vec![2.0], vec![3.0]]);
    assert!((all[0].value - 14f64.sqrt()).abs() < 1e-12);
    assert!(all[1..].iter().all(|d| d.value < 1e-12), "{all:?}");
}

proptest! {
    #[test]
    fn directions_are_orthonormal_and_their_images_right(
        columns in prop::collection::vec(prop::collection::vec(-9.0f64..9.0, 5), 1..5),
    ) {
        let all = decompose(&columns);
        for (i, a) in all.iter().enumerate() {
            let image: Vec<f64> = (0..5)
                .map(|row| columns.iter().zip(&a.right).map(|(c, x)| c[row] * x).sum())
                .collect();
            let far = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-9;
            prop_assert!(!image.iter().zip(&a.image).any(far), "{image:?} {a:?}");
            for (j, b) in all.iter().enumerate() {
                let unit = f64::from(u8::from(i == j));
                prop_assert!((dot(&a.right, &b.right) - unit).abs() < 1e-9);
                prop_assert!(i == j || dot(&a.image, &b.image).abs() < 1e-9);
            }
        }
    }
}
