//! The options for what copies keep.

use haul_copy::plan::{ContextRule, Dereference, ModeRule};

use super::draft::{Draft, Flag, Keep};
use crate::complaint::{Complaint, fatal};
use crate::environment::Security;
use crate::flags::Argument::{Optional, Required};
use crate::flags::Category::Attributes;
use crate::flags::Effect::{Switch, Value};
use crate::flags::Mode;
use crate::given::Given;
use crate::values::{Choice, Values, of_cp, own};

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        short: "a",
        long: "archive",
        help: "same as -dR --preserve=all",
        details: "haul skips extended attributes that the destination cannot hold, without a warning.",
        effect: Switch(Draft::archive),
        modes: &[Mode::Compare],
        ..Flag::cp(Attributes)
    },
    Flag {
        short: "d",
        help: "same as --no-dereference --preserve=links",
        effect: Switch(|draft| {
            draft.plan.preserve.links = true;
            draft.dereference = Some(Dereference::Never);
        }),
        modes: &[Mode::Compare],
        ..Flag::cp(Attributes)
    },
    Flag {
        short: "p",
        long: "preserve",
        argument: Optional("LIST"),
        values: Values::List(ATTRIBUTES),
        help: "keep these attributes; mode,ownership,timestamps by default",
        details: "The command fails if it cannot keep an attribute that was asked for by name. The copy is made all \
                  the same.",
        effect: Value(|draft, given| {
            match given.value {
                None => draft.keep_mode_owner_and_times(),
                Some(_) => {
                    set_attributes(draft, given, true)?;
                    draft.plan.preserve.required = true;
                }
            }
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::cp(Attributes)
    },
    Flag {
        long: "no-preserve",
        argument: Required("LIST"),
        values: Values::List(ATTRIBUTES),
        help: "do not keep these attributes",
        details: "Without mode, copies get the permissions of any new file.",
        words_at: Some("preserve"),
        effect: Value(|draft, given| set_attributes(draft, given, false)),
        modes: &[Mode::Compare],
        ..Flag::cp(Attributes)
    },
    Flag {
        long: "attributes-only",
        help: "keep attributes, but leave the data of DEST as it is",
        effect: Switch(|draft| draft.plan.attributes_only = true),
        modes: &[Mode::Compare],
        ..Flag::cp(Attributes)
    },
    Flag {
        short: "Z",
        long: "context",
        argument: Optional("CTX"),
        help: "set the security context to the default, or to CTX",
        details: "The default is that of the directory where the copy is. Ignored without SELinux or SMACK.",
        effect: Value(set_context),
        ..Flag::cp(Attributes)
    },
];

/// The arguments of `--preserve` and `--no-preserve`, in the order of GNU's messages.
const ATTRIBUTES: &[Choice] = &[
    of_cp("mode", "permission bits and access control lists"),
    of_cp("timestamps", "access and modification times, to the nanosecond"),
    of_cp("ownership", "user and group"),
    of_cp("links", "hard links between the files copied"),
    of_cp("context", "SELinux security context"),
    of_cp("xattr", "extended attributes of all namespaces"),
    of_cp("all", "all of the above"),
    own("flags", "inode flags as chattr sets them (not part of all)"),
    own("project", "project ID, for project quotas (not part of all)"),
];

/// The list of `--preserve` (`keep`) or `--no-preserve`.
fn set_attributes(draft: &mut Draft, list: &Given<'_>, keep: bool) -> Result<(), Complaint> {
    let mode = if keep { ModeRule::Keep } else { ModeRule::Discard };
    for word in list.words()? {
        let preserve = &mut draft.plan.preserve;
        match word {
            "mode" => preserve.mode = mode,
            "timestamps" => preserve.timestamps = keep,
            "ownership" => preserve.ownership = keep,
            "links" => preserve.links = keep,
            "context" => draft.context = Keep::named(keep),
            "xattr" => draft.xattr = Keep::named(keep),
            "flags" => preserve.flags = keep,
            "project" => preserve.project = keep,
            _ => {
                preserve.mode = mode;
                preserve.timestamps = keep;
                preserve.ownership = keep;
                preserve.links = keep;
                draft.xattr.asked = keep;
                if draft.has_selinux() {
                    draft.context.asked = keep;
                }
            }
        }
    }
    Ok(())
}

fn set_context(draft: &mut Draft, given: &Given<'_>) -> Result<(), Complaint> {
    match (given.owned(), draft.security()) {
        (Some(context), Security::Selinux | Security::Smack) => draft.plan.context = ContextRule::Fixed(context),
        (Some(_), Security::None) => {
            draft.warnings.push(b"warning: ignoring --context; it requires an SELinux-enabled kernel".to_vec());
        }
        (None, Security::Selinux) => draft.plan.context = ContextRule::OfDestination,
        (None, _) => {}
    }
    Ok(())
}

/// Extended attributes and security contexts: what is wished for, and whether it can be had.
pub fn settle_labels(draft: &mut Draft) -> Result<(), Complaint> {
    let sets_context = draft.plan.context != ContextRule::Default;
    if sets_context && !draft.context.required {
        draft.context.asked = false;
    }
    if sets_context && draft.context.asked {
        return Err(fatal("cannot set target context and preserve it"));
    }
    if draft.context.required && !draft.has_selinux() {
        return Err(fatal("cannot preserve security context without an SELinux-enabled kernel"));
    }
    draft.plan.preserve.context = draft.context.wish();
    draft.plan.preserve.xattr = draft.xattr.wish();
    Ok(())
}
