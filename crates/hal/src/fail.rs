//! The refusal of what may not be.

/// Fails with `error` if `refused` holds: a check of one line, with `?` behind it.
///
/// # Errors
/// `error`, as given.
#[inline]
pub fn fail_if<E>(refused: bool, error: E) -> Result<(), E> {
    if refused { Err(error) } else { Ok(()) }
}
