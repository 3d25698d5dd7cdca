//! Keeping an existing destination under another name.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{AtFlags, OFlags, linkat};

use super::replace::{make_or_replace, rename_to_free};
use super::temporary::TemporaryNames;
use crate::plan::{Backup, Plan};
use crate::walk::{Identity, Listing, Party, Spot};

/// Longest backup name in bytes: GNU leaves one byte less than NAME_MAX, which is 255 on every filesystem of Linux but a
/// few exotic ones.
const LONGEST: usize = 254;

/// Renames the entry to its backup name and returns that; ENOENT if there was nothing to back up.
pub(crate) fn move_aside(dest: Spot<'_>, plan: &Plan) -> Result<OsString, Errno> {
    let mut taken = None;
    loop {
        let (name, numbered) = backup_name(dest, plan, taken)?;
        if !numbered {
            dest.rename_to(&name)?;
            return Ok(name);
        }
        match rename_to_free(dest, &name) {
            Ok(()) => return Ok(name),
            // Another process made this number meanwhile: look again. A name without room for a number has no other.
            Err(Errno::EXIST) if number_of_backup(dest, &name).is_some() => taken = number_of_backup(dest, &name),
            Err(errno) => return Err(errno),
        }
    }
}

/// Gives the entry its backup name beside its own and returns that; `None` where there are no hard links.
pub(crate) fn link_aside(dest: Spot<'_>, plan: &Plan, names: &TemporaryNames) -> Result<Option<OsString>, Errno> {
    let mut taken = None;
    loop {
        let (name, numbered) = backup_name(dest, plan, taken)?;
        let dir = dest.dir()?;
        let link = |name: &OsStr| linkat(dir, dest.name, dir, name, AtFlags::empty());
        match make_or_replace(dest.beside(&name, dest.path), (!numbered).then_some(names), link) {
            Ok(_) => return Ok(Some(name)),
            // As above.
            Err(Errno::EXIST) if number_of_backup(dest, &name).is_some() => taken = number_of_backup(dest, &name),
            // No links at all, not of this file (protected_hardlinks of proc(5)), or no more of it.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

/// The name that a backup of the entry gets, and whether it is a numbered one. The number is beyond one that is known to be
/// `taken`, though it may not be seen: a directory can be written without being readable.
pub(crate) fn backup_name(dest: Spot<'_>, plan: &Plan, taken: Option<String>) -> Result<(OsString, bool), Errno> {
    let base = crate::walk::without_trailing_slashes(dest.name);
    let highest = match plan.backup {
        Backup::None | Backup::Simple => None,
        Backup::Existing => highest_number(dest, base)?,
        Backup::Numbered => Some(highest_number(dest, base)?.unwrap_or_default()),
    };
    Ok(match highest {
        Some(number) => {
            let beyond = taken.filter(|taken| is_higher(taken, &number)).unwrap_or(number);
            (numbered_name(base, &increment(beyond)), true)
        }
        None => (simple_name(base, &plan.backup_suffix), false),
    })
}

fn number_of_backup(dest: Spot<'_>, name: &OsStr) -> Option<String> {
    let base = crate::walk::without_trailing_slashes(dest.name);
    number_of(base.as_bytes(), name.as_bytes()).map(str::to_owned)
}

/// Compares decimal numbers without leading zeros.
fn is_higher(number: &str, than: &str) -> bool {
    (number.len(), number) > (than.len(), than)
}

fn numbered_name(base: &OsStr, number: &str) -> OsString {
    let mut name = base.to_owned();
    name.push(format!(".~{number}~"));
    shortened(base, name)
}

fn simple_name(base: &OsStr, suffix: &OsStr) -> OsString {
    let mut name = base.to_owned();
    name.push(suffix);
    shortened(base, name)
}

/// A backup name that is too long loses the end of the original name and gets a tilde instead, as GNU does.
fn shortened(base: &OsStr, name: OsString) -> OsString {
    if name.len() <= LONGEST {
        return name;
    }
    let mut bytes = base.as_bytes()[..base.len().min(LONGEST - 1)].to_vec();
    bytes.push(b'~');
    OsString::from_vec(bytes)
}

/// The highest N of existing backups `BASE.~N~`, as decimal digits; `None` if there are none.
fn highest_number(dest: Spot<'_>, base: &OsStr) -> Result<Option<String>, Errno> {
    let dir = match dest.beside(OsStr::new("."), dest.path).open(OFlags::RDONLY | OFlags::DIRECTORY, 0) {
        Ok(dir) => dir,
        // A directory that may be written but not read: the number starts anew, and a collision is noticed.
        Err(Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let mut highest: Option<String> = None;
    let mut listing = Listing::default();
    while let Some(listed) = listing.next(dir.as_fd())? {
        if let Some(number) = number_of(base.as_bytes(), listed.name.as_bytes()) {
            let higher = highest.as_deref().is_none_or(|best| is_higher(number, best));
            if higher {
                highest = Some(number.to_owned());
            }
        }
    }
    Ok(highest)
}

/// The digits of `BASE.~DIGITS~`; the first is not zero, so longer means greater.
fn number_of<'a>(base: &[u8], name: &'a [u8]) -> Option<&'a str> {
    let digits = name.strip_prefix(base)?.strip_prefix(b".~")?.strip_suffix(b"~")?;
    let plain = digits.iter().all(u8::is_ascii_digit) && digits.first().is_some_and(|first| *first != b'0');
    plain.then(|| std::str::from_utf8(digits).ok()).flatten()
}

/// Adds one to a decimal number of any length.
fn increment(number: String) -> String {
    let mut digits = number.into_bytes();
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return String::from_utf8_lossy(&digits).into_owned();
        }
        *digit = b'0';
    }
    format!("1{}", String::from_utf8_lossy(&digits))
}

/// Whether making the backup of `dest` would overwrite the source: the source is `dest` with the backup suffix, or what has the
/// name of the backup is the only name of the source. Another name may lead to that: a symbolic link, one that is cut since it is
/// too long, one in other letters where a directory does not tell them apart.
pub(crate) fn would_destroy_source((source, inode): (Spot<'_>, &Inode), dest: Spot<'_>, plan: &Plan) -> bool {
    let base = crate::walk::last_component(dest.name);
    let mut suffixed = base.to_owned();
    suffixed.push(&plan.backup_suffix);
    let is_source = |found: Result<Inode, Errno>| found.is_ok_and(|found| found.id == inode.id);
    let same_name = crate::walk::last_component(source.name) == suffixed;
    if same_name && is_source(dest.beside(&suffixed, dest.path).inode_following()) {
        return true;
    }
    // Which of its names leads to the source is not asked where that has several: one that a link leads to may be this one.
    let is_reached = || source.inode().is_ok_and(|entry| entry.kind == Kind::SymbolicLink);
    let simple = simple_name(base, &plan.backup_suffix);
    is_source(dest.beside(&simple, dest.path).inode())
        && (inode.links <= 1 || is_reached())
        && backup_name(dest, plan, None).is_ok_and(|(_, numbered)| !numbered)
}

/// Whether making the backup of `dest` might overwrite the source under other numbers: it has the name of the backup, and what has
/// that name is not proven to be another file.
pub(crate) fn may_destroy_source(
    source: Party<'_>,
    dest: Spot<'_>,
    plan: &Plan,
    judge: &dyn Fn(Party<'_>) -> Identity,
) -> bool {
    let simple = simple_name(crate::walk::last_component(dest.name), &plan.backup_suffix);
    let backup = dest.beside(&simple, dest.path);
    crate::walk::last_component(source.spot.name) == simple
        && backup.inode().is_ok_and(|inode| {
            inode.id != source.inode.id
                && judge(Party { spot: backup, inode: &inode, follow: false }) != Identity::Two
                && backup_name(dest, plan, None).is_ok_and(|(_, numbered)| !numbered)
        })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use haul_testbed::temp_dir;

    use super::*;

    #[test]
    fn a_backup_destroys_the_source_whatever_name_leads_to_it() {
        let dir = temp_dir();
        let at = |name: &str| dir.path().join(name);
        let long = "a".repeat(LONGEST - 1);
        let (cut, longer) = (format!("{long}~"), format!("{long}x"));
        for name in ["foo", "foo~", "linked", &cut, &longer] {
            fs::write(at(name), name).unwrap();
        }
        symlink("foo~", at("to-foo~")).unwrap();
        symlink("linked", at("to-linked")).unwrap();
        fs::hard_link(at("linked"), at("bar~")).unwrap();
        symlink("foo", at("link~")).unwrap();
        fs::write(at("bar"), "bar").unwrap();
        let parent = File::open(dir.path()).unwrap();
        let plan = |backup| Plan { backup, backup_suffix: "~".into(), ..Plan::default() };
        for (source, dest, backup, destroyed) in [
            ("foo~", "foo", Backup::Simple, true),
            ("to-foo~", "foo", Backup::Simple, true),
            ("to-foo~", "foo", Backup::Existing, true),
            (&cut, &longer, Backup::Simple, true),
            ("foo~", "foo", Backup::Existing, true),
            ("to-foo~", "foo", Backup::Numbered, false),
            // It may be the name that the link leads to; a name of its own stays, and so does what a link leads to.
            ("to-linked", "bar", Backup::Simple, true),
            ("linked", "bar", Backup::Simple, false),
            ("foo", "link", Backup::Simple, false),
            ("bar", "foo", Backup::Simple, false),
        ] {
            let [from, to] = [source, dest].map(|name| Spot::new(parent.as_fd(), name.as_ref(), name.as_ref()));
            let inode = from.inode_following().unwrap();
            let found = would_destroy_source((from, &inode), to, &plan(backup));
            assert_eq!(found, destroyed, "{source} {dest} {backup:?}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_counted_up() {
        for (number, next) in
            [("", "1"), ("1", "2"), ("9", "10"), ("199", "200"), ("99999999999999999999", "100000000000000000000")]
        {
            assert_eq!(increment(number.to_owned()), next);
        }
    }

    #[test]
    fn only_whole_numbers_without_leading_zeros_are_backups() {
        for (name, number) in [
            ("a.~1~", Some("1")),
            ("a.~10~", Some("10")),
            ("a.~01~", None),
            ("a.~~", None),
            ("a~", None),
            ("b.~1~", None),
            ("a.~1x~", None),
        ] {
            assert_eq!(number_of(b"a", name.as_bytes()), number, "{name}");
        }
    }
}
