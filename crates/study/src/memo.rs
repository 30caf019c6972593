//! Results that are computed once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The results so far, by key. Of threads that ask for the same one, the first computes it and the
/// others wait.
#[derive(Debug)]
pub(crate) struct Memo<K, V>(Mutex<BTreeMap<K, Arc<OnceLock<V>>>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo(Mutex::default())
    }
}

impl<K: Ord, V: Clone> Memo<K, V> {
    pub(crate) fn get(&self, key: K, compute: impl FnOnce() -> V) -> V {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = Arc::clone(all.entry(key).or_default());
        drop(all);
        result.get_or_init(compute).clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
