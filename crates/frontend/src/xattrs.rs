//! The system's rules for extended attributes.

use haul_copy::meta::XattrRules;
use haul_copy::plan::{Plan, Wish};

use crate::report::Report;

/// Which extended attributes are not copied: libattr's file.
const RULES: &str = "/etc/xattr.conf";

/// The rules of the system for extended attributes, read only if a copy needs them. Warns where they cannot be understood.
pub fn rules(report: &Report, plan: &Plan) -> XattrRules {
    if plan.preserve.xattr == Wish::No {
        return XattrRules::default();
    }
    // Where the file cannot be read, other programs take their built-in rules, too.
    let Ok(text) = std::fs::read(RULES) else { return XattrRules::default() };
    XattrRules::parse(&text).unwrap_or_else(|line| {
        report.complain(format!("warning: {RULES}: {line}; built-in rules are used").as_bytes());
        XattrRules::default()
    })
}
