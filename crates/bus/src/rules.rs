//! Settings of a bus outside of what its specification allows.

/// A setting outside what its bus, or this model of it, allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{setting} = {given} is not {bus} setting; allowed: {allowed}")]
pub struct RulesError {
    /// The bus, with its article.
    pub bus: &'static str,
    /// The setting, by its field name.
    pub setting: &'static str,
    /// The value given.
    pub given: u32,
    /// The values allowed.
    pub allowed: &'static str,
}

/// Returns the check of one setting of `bus`: whether it holds, its field name, the value given and
/// the values allowed.
pub(crate) fn checker(
    bus: &'static str,
) -> impl Fn(bool, &'static str, u32, &'static str) -> Result<(), RulesError> {
    move |holds, setting, given, allowed| {
        if holds { Ok(()) } else { Err(RulesError { bus, setting, given, allowed }) }
    }
}
