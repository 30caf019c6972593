//! One body of tests per driver, run on every arm; and the judges that nobody here
//! wrote.

pub mod mlx5;
pub mod tshark;
