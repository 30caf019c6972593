//! Integration tests, one program; doorbell-testkit checks that no file is forgotten.

mod boundaries;
mod net_dim_traps;
mod net_dim_vectors;
mod ours;
mod properties;
mod rdma_dim_traps;
