//! Whether a copy is right.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;

use haul_copy::compare::{Difference, Found, Observer, Session, compare};
use haul_copy::error::Error;
use haul_copy::meta::XattrRules;
use haul_copy::plan::{Dereference, Destination, ModeRule, Plan, Preserve, Wish};
use haul_measure::stop::Stop;
use haul_measure::words;

use haul_guest::image::ImageFile;

/// What of an image is compared at once; the granule of a guest's map, 4 KiB, divides it.
const PIECE: usize = 64 << 10;
/// Differences that are reported one by one.
const TOLD: usize = 3;

/// Compares names, kinds, contents and link targets; with `metadata` also modes, owners, times, attributes and hard links. Says
/// why the copy is not one: the first differences in words, and how many there are. Nothing is proven if it was stopped.
pub fn verify(source: &Path, copy: &Path, metadata: bool, stop: &Stop) -> Option<String> {
    let mut plan = Plan {
        sources: vec![source.into()],
        destination: Destination::Exactly(copy.into()),
        recursive: true,
        dereference: Dereference::Never,
        ..Plan::default()
    };
    plan.preserve = Preserve {
        mode: if metadata { ModeRule::Keep } else { ModeRule::Discard },
        ownership: metadata,
        timestamps: metadata,
        links: metadata,
        xattr: if metadata { Wish::Try } else { Wish::No },
        ..Preserve::default()
    };
    let heard = Heard::default();
    let rules = XattrRules::default();
    let session = Session { observer: &heard, rules: &rules, stop: &|| stop.is_stopped(), board: None };
    compare(&plan, &session);
    let (number, reported) = heard.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let more = number.saturating_sub(reported.len());
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    (number > 0).then(|| format!("{}{rest}", reported.join("; ")))
}

/// Says of a copy that it is the source itself: a hard link, or a mount of it.
fn same_file(source: &Path, copy: &Path) -> Option<String> {
    let (one, two) = (fs::symlink_metadata(source).ok()?, fs::symlink_metadata(copy).ok()?);
    let same = two.is_file() && (one.dev(), one.ino()) == (two.dev(), two.ino());
    same.then(|| format!("{} is no copy, but the same file", copy.file_name().unwrap_or_default().to_string_lossy()))
}

/// Compares a raw disk image with a copy that, if `smart`, may lack what the guests do not use: free bytes are those of the source
/// or zeros, all others are those of the source.
pub fn verify_image(source: &Path, copy: &Path, smart: bool, stop: &Stop) -> Option<String> {
    let compared = || compare_images(source, copy, smart, stop).unwrap_or_else(|error| Some(words::of(&error)));
    same_file(source, copy).or_else(compared)
}

fn compare_images(source: &Path, copy: &Path, smart: bool, stop: &Stop) -> io::Result<Option<String>> {
    let open = |path: &Path| File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let ((size, original), (copied, copy)) = (open(source)?, open(copy)?);
    if size != copied {
        return Ok(Some(format!("it has {copied} bytes of {size}")));
    }
    let map = haul_guest::map(&ImageFile::new(original.try_clone()?, size), &haul_guest::fs::Options::default());
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    let mut parts: Vec<(u64, u64, bool)> = map.free.iter().map(|extent| (extent.start, extent.end(), true)).collect();
    parts.extend(map.free.complement(0..size).iter().map(|extent| (extent.start, extent.end(), false)));
    for (start, end, free) in parts {
        let mut at = start;
        while at < end && !stop.is_stopped() {
            let count = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            original.read_exact_at(&mut left[..count], at)?;
            copy.read_exact_at(&mut right[..count], at)?;
            let zeros = || smart && free && right[..count].iter().all(|byte| *byte == 0);
            if left[..count] != right[..count] && !zeros() {
                return Ok(Some(format!("other contents in the {count} bytes from {at} on")));
            }
            at += count as u64;
        }
    }
    Ok(None)
}

#[derive(Default)]
struct Heard(Mutex<(usize, Vec<String>)>);

impl Heard {
    fn report(&self, words: String) {
        let mut heard = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        heard.0 += 1;
        if heard.1.len() < TOLD {
            heard.1.push(words);
        }
    }
}

impl Observer for Heard {
    fn differs(&self, found: &Found) {
        let name = found.copy.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.report(match &found.difference {
            Difference::OnlyInSource => format!("{name} is missing"),
            Difference::OnlyInCopy => format!("{name} is not in the source"),
            Difference::Kind(..) => format!("{name} is of another kind"),
            Difference::Size(one, two) => format!("{name} has {two} bytes of {one}"),
            Difference::Contents(at) => format!("{name} has other contents from byte {at} on"),
            Difference::Target(..) => format!("{name} is a link to something else"),
            Difference::Node(..) => format!("{name} is another device"),
            Difference::Mode(one, two) => format!("{name} has the mode {two:04o}, not {one:04o}"),
            Difference::Owner(..) => format!("{name} has another owner"),
            Difference::Same => format!("{name} is the source itself"),
            Difference::Modified(..) => format!("{name} has another time"),
            Difference::Attribute(attribute) => format!("{name} lacks {}", attribute.to_string_lossy()),
            Difference::NotLinked(_) | Difference::Linked(_) => format!("{name} has other hard links"),
        });
    }

    fn problem(&self, error: &Error) {
        self.report(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_lacks_a_file_or_differs_in_a_byte_is_wrong() {
        let dir = haul_testbed::temp_dir();
        let at = |name: &str| dir.path().join(name);
        for tree in ["source", "right", "short", "other"] {
            fs::create_dir(at(tree)).unwrap();
            fs::write(at(tree).join("a"), [1; 5000]).unwrap();
            fs::write(at(tree).join("b"), [2; 10]).unwrap();
        }
        fs::remove_file(at("short/b")).unwrap();
        fs::write(at("other/a"), [[1; 4999].as_slice(), &[3]].concat()).unwrap();
        let wrong = |copy: &str| verify(&at("source"), &at(copy), false, &Stop::default());
        assert_eq!(wrong("right"), None);
        assert_eq!(wrong("short").as_deref(), Some("b is missing"));
        assert_eq!(wrong("other").as_deref(), Some("a has other contents from byte 4999 on"));
        assert!(wrong("none").is_some());
        assert_eq!(verify(&at("source/a"), &at("right/a"), false, &Stop::default()), None);
    }

    #[test]
    fn a_hard_link_is_no_copy() {
        let dir = haul_testbed::temp_dir();
        let at = |name: &str| dir.path().join(name);
        for tree in ["source", "copy"] {
            fs::create_dir(at(tree)).unwrap();
        }
        fs::write(at("source/a"), b"x").unwrap();
        fs::hard_link(at("source/a"), at("copy/a")).unwrap();
        let verdict = verify(&at("source"), &at("copy"), false, &Stop::default());
        assert_eq!(verdict.as_deref(), Some("a is the source itself"));
        assert!(verify_image(&at("source/a"), &at("copy/a"), true, &Stop::default()).is_some());
    }

    #[test]
    fn metadata_counts_only_if_it_is_asked_for() {
        let dir = haul_testbed::temp_dir();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("source"), b"x").unwrap();
        fs::write(at("copy"), b"x").unwrap();
        let past = std::time::SystemTime::UNIX_EPOCH;
        fs::File::open(at("copy")).unwrap().set_modified(past).unwrap();
        let wrong = |metadata| verify(&at("source"), &at("copy"), metadata, &Stop::default());
        assert_eq!(wrong(false), None);
        assert_eq!(wrong(true).as_deref(), Some("copy has another time"));
    }
}
