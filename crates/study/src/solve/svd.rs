//! Singular values by one-sided Jacobi rotations (M. R. Hestenes, "Inversion of matrices by
//! biorthogonalization", SIAM 6:1, 1958). It finds small singular values to high relative accuracy,
//! and its arithmetic is the same on every machine.

/// The most sweeps over all pairs of columns. A few suffice.
const SWEEPS: u32 = 60;
/// The cosine of two columns that counts as zero.
const ORTHOGONAL: f64 = 1e-15;

/// A direction of the columns' space, and its image.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Direction {
    /// The singular value.
    pub(crate) value: f64,
    /// A coefficient for each column, of unit length.
    pub(crate) right: Vec<f64>,
    /// The image of `right`: of the length of the singular value.
    pub(crate) image: Vec<f64>,
}

/// Decomposes the matrix with these columns. The greatest singular value comes first.
pub(super) fn decompose(columns: &[Vec<f64>]) -> Vec<Direction> {
    let n = columns.len();
    let mut images = columns.to_vec();
    let mut rights: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for i in 0..n {
            for j in i + 1..n {
                if let Some(by) = rotation(&images[i], &images[j]) {
                    rotate(&mut images, (i, j), by);
                    rotate(&mut rights, (i, j), by);
                    rotated = true;
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let all = images.into_iter().zip(rights);
    let direction = |(image, right): (Vec<f64>, _)| Direction { value: norm(&image), right, image };
    let mut all: Vec<Direction> = all.map(direction).collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    all
}

/// Returns cosine and sine of the rotation that makes two columns orthogonal, unless they are.
fn rotation(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let (aa, bb, ab) = (dot(a, a), dot(b, b), dot(a, b));
    if ab.abs() <= ORTHOGONAL * (aa * bb).sqrt() {
        return None;
    }
    let half = (bb - aa) / (2.0 * ab);
    let tangent = half.signum() / (half.abs() + (1.0 + half * half).sqrt());
    let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
    Some((cosine, cosine * tangent))
}

fn rotate(columns: &mut [Vec<f64>], (i, j): (usize, usize), (cosine, sine): (f64, f64)) {
    for row in 0..columns[i].len() {
        let (a, b) = (columns[i][row], columns[j][row]);
        columns[i][row] = cosine * a - sine * b;
        columns[j][row] = sine * a + cosine * b;
    }
}

/// Returns the scalar product.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the Euclidean length.
pub(crate) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

#[cfg(test)]
mod tests;
