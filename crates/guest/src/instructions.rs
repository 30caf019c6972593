//! Instructions that a guest executed, by function.
