//! What is compared.

use crate::meta::XattrRules;
use crate::plan::Plan;

/// What is compared, as far as the plan keeps it.
pub(super) struct Rules<'a> {
    pub(super) plan: &'a Plan,
    pub(super) xattrs: &'a XattrRules,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
}
