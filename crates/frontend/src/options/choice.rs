//! The options for which entries below the sources are wanted.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_copy::filter::{BadPattern, Filter, Rule};
use haul_copy::list::Names;
use haul_copy::plan::{Dereference, Overwrite};
use haul_sys::inode::Time;

use super::draft::{Draft, Flag};
use crate::complaint::{Complaint, fatal, misuse};
use crate::errno::strerror;
use crate::files::open_regular;
use crate::flags::Argument::Required;
use crate::flags::Category::Source;
use crate::flags::Effect::{Switch, Value};
use crate::flags::Mode;
use crate::given::Given;
use crate::quote::Quoter;
use crate::size::parse_size;
use crate::values::Values;
use crate::words;

/// The most bytes that are read of a file of patterns or names.
const MOST_TEXT: u64 = 1 << 30;

/// In the order of the documentation.
pub const FLAGS: &[Flag] = &[
    Flag {
        long: "exclude",
        argument: Required("PATTERN"),
        help: "leave out what PATTERN matches below each SOURCE",
        details: "PATTERN is one of gitignore(5). Without a slash it is for names at any depth (*.o); with a slash at its \
                  beginning or in it, for paths below the SOURCE (/build, doc/*.txt); with one at its end, for \
                  directories only. * and ? match anything but a slash, **/ any directories, [a-z] one byte of a range. \
                  Of all --exclude, --include and --exclude-from, in the order in which they are given, the first one \
                  that matches an entry decides; what none matches is copied. haul does not look into a directory that \
                  is left out, so nothing below it can be included again. A SOURCE that would be left out itself is an \
                  error, and nothing is copied. --compare, --list-out, --list and --shard leave out the same entries. \
                  With --explain, a copy names each pattern that has decided about nothing.",
        effect: Value(|draft, given| {
            draft.choice.rules.push(Rule::exclude(given.text()));
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "include",
        argument: Required("PATTERN"),
        help: "copy what PATTERN matches, whatever a later --exclude says",
        details: "To copy only C files with the directories that they are in: --include='*/' --include='*.c' \
                  --exclude='*'.",
        effect: Value(|draft, given| {
            draft.choice.rules.push(Rule::include(given.text()));
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "exclude-from",
        argument: Required("FILE"),
        values: Values::File,
        help: "leave out what a pattern in FILE matches",
        details: "FILE is written as a .gitignore file is: a pattern in each line; ! before one to include what it \
                  matches; # before a comment. As there, the last line of FILE that matches decides. - is standard \
                  input. FILE is a regular file of at most 1 GiB.",
        effect: Value(read_rules),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "exclude-caches",
        help: "leave out what is in directories that CACHEDIR.TAG marks",
        details: "A directory is a cache if it has a regular file of this name that begins with the signature of the \
                  Cache Directory Tagging Specification. haul copies the directory and the tag, nothing else of it; with --move the source keeps both. It \
                  does not go with --list: give it to the command with --list-out.",
        effect: Switch(|draft| draft.choice.exclude_caches = true),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "max-size",
        argument: Required("SIZE"),
        help: "leave out regular files that are larger",
        details: "In bytes, or with a unit: K, M, G, T are powers of 1024; KB, MB, GB, TB powers of 1000.",
        effect: Value(|draft, given| {
            draft.choice.max_size = Some(given.parsed(parse_size)?);
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "min-size",
        argument: Required("SIZE"),
        help: "leave out regular files that are smaller",
        effect: Value(|draft, given| {
            draft.choice.min_size = Some(given.parsed(parse_size)?);
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "newer-than",
        argument: Required("TIME"),
        help: "leave out regular files not modified after TIME",
        details: "TIME is @SECONDS since 1970 (date +%s says them); a date in UTC, 2026-01-31 or 2026-01-31T12:00:00Z; \
                  or, if it has a slash in it, a file, whose time of modification it is (./stamp).",
        effect: Value(|draft, given| {
            let wanted = ": @SECONDS, a date (2026-01-31, 2026-01-31T12:00:00Z) or the path of a file with a slash in it \
                          is wanted";
            draft.choice.newer_than = Some(match given.text().as_bytes().contains(&b'/') {
                true => time_of_file(given)?,
                false => given.text().to_str().and_then(time).ok_or_else(|| given.invalid(wanted))?,
            });
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        long: "files-from",
        argument: Required("FILE"),
        values: Values::File,
        help: "copy only the names in FILE, which are below SOURCE",
        details: "A name in each line, - is standard input; SOURCE is one directory. FILE is a regular file of at most 1 GiB: for \
                  the output of a program give -. As with rsync, slashes before a name \
                  and empty lines do not count, the directories on the way to a name are made with their attributes, and \
                  a name that is not there is an error while the others are copied. A directory in FILE is made without \
                  what is in it unless -r is given, which -a alone does not mean here; . and / are SOURCE itself. .. in a name, and a FILE that \
                  cannot be read, are errors, and nothing is copied. haul looks for no name behind a symbolic link. \
                  Filters leave names of FILE out, too; --exclude-caches only what -r finds. It does not go with \
                  --list, -L, --parents and --strip-trailing-slashes.",
        effect: Value(|draft, given| {
            draft.files_from = given.path();
            Ok(())
        }),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
    Flag {
        short: "0",
        long: "from0",
        help: "with --files-from and --failures: a zero byte ends each name",
        details: "As find -print0 writes them: a name may then have line breaks in it.",
        effect: Switch(|draft| draft.from0 = true),
        modes: &[Mode::Compare],
        ..Flag::own(Source)
    },
];

/// `-i` asks on standard input, too.
pub fn settle_input(draft: &Draft) -> Result<(), Complaint> {
    match draft.run.reads_input && draft.plan.overwrite == Overwrite::Ask {
        true => Err(misuse(
            "-i reads its answers from standard input, where the names or patterns come from: write those into a file",
        )),
        false => Ok(()),
    }
}

/// All of a file, or of standard input for `-`. `what` it is for begins the message.
fn read_text(draft: &mut Draft, path: &Path, what: &str, quoter: &Quoter) -> Result<Vec<u8>, Complaint> {
    let mut text = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => {
            if std::mem::replace(&mut draft.run.reads_input, true) {
                return Err(misuse("only one option can read standard input: write the other text into a file"));
            }
            io::stdin().take(MOST_TEXT + 1).read_to_end(&mut text)
        }
        false => open_regular(path).and_then(|file| file.take(MOST_TEXT + 1).read_to_end(&mut text)),
    };
    let unusable = |why: &str| fatal(words::unusable(what, path, why, quoter));
    let read = read.map_err(|error| unusable(&words::io_error(&error)))?;
    if read as u64 > MOST_TEXT { Err(unusable("it is larger than 1 GiB")) } else { Ok(text) }
}

/// What does not go with `--failures`, whose names `--files-from` must understand.
pub fn settle_failures(draft: &mut Draft) -> Result<(), Complaint> {
    if draft.run.failures.is_none() {
        return Ok(());
    }
    draft.run.zero_ends_names = draft.from0;
    let plan = &draft.plan;
    if plan.sources.len() > 1 {
        return Err(misuse("--failures wants one SOURCE, which the names are below"));
    }
    [
        (plan.recursive && plan.dereference == Dereference::Always, "-L"),
        (plan.parents, "--parents"),
        (plan.moves, "--move"),
        (plan.dry_run, "--dry-run"),
        (draft.run.list.is_some(), "--list"),
        (draft.run.list_out.is_some(), "--list-out"),
    ]
    .into_iter()
    .find_map(|(asked, option)| asked.then(|| misuse(format!("--failures does not go with {option}"))))
    .map_or(Ok(()), Err)
}

/// Reads the list of names.
pub fn settle_names(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
    let Some(path) = draft.files_from.take() else {
        return match draft.from0 && draft.run.failures.is_none() {
            true => Err(misuse("--from0 has a meaning only with --files-from and --failures")),
            false => Ok(()),
        };
    };
    if draft.run.list.is_some() {
        return Err(misuse("--files-from does not go with --list, which has names of its own"));
    }
    let what = "cannot read the names in";
    let text = read_text(draft, &path, what, quoter)?;
    let end = if draft.from0 { 0 } else { b'\n' };
    let names = Names::parse(&text, end, draft.named_contents);
    let names = names.map_err(|bad| fatal(words::unusable(what, &path, &bad.to_string(), quoter)))?;
    draft.plan.names = Some(Arc::new(names));
    draft.plan.recursive = true;
    Ok(())
}

fn read_rules(draft: &mut Draft, given: &Given<'_>) -> Result<(), Complaint> {
    let path = Path::new(given.text());
    let text = read_text(draft, path, "cannot read patterns from", given.quoter)?;
    draft.choice.add_lines(&text).map_err(|(line, bad)| {
        let place = format!(", line {line}: ");
        fatal([&given.quoter.path(path)[..], place.as_bytes(), &unusable_pattern(&bad, given.quoter)].concat())
    })
}

fn time_of_file(given: &Given<'_>) -> Result<Time, Complaint> {
    let path = Path::new(given.text());
    let found = haul_sys::inode::Inode::at_following(haul_sys::rustix::fs::CWD, path.as_os_str());
    found.map(|inode| inode.modified).map_err(|errno| {
        fatal(words::unusable("cannot look at the file of --newer-than,", path, &strerror(errno), given.quoter))
    })
}

/// `@SECONDS`, `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SSZ`.
fn time(text: &str) -> Option<Time> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(seconds) = text.strip_prefix('@') {
        let digits = seconds.strip_prefix('-').unwrap_or(seconds);
        let seconds = Some(seconds).filter(|_| is_number(digits))?.parse().ok()?;
        return Some(Time { seconds, nanoseconds: 0 });
    }
    let (date, clock) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let fields = |text: &str, by: char, widths: [usize; 3]| -> Option<[i64; 3]> {
        let parts: Vec<&str> = text.split(by).collect();
        let fit =
            parts.len() == 3 && parts.iter().zip(widths).all(|(part, width)| part.len() == width && is_number(part));
        let mut numbers = parts.iter().filter_map(|part| part.parse().ok());
        fit.then(|| Some([numbers.next()?, numbers.next()?, numbers.next()?])).flatten()
    };
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = fields(clock.strip_suffix('Z')?, ':', [2, 2, 2])?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=most).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March here, so that the day that some years lack is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day;
    /// From the first of March of the year 0 to 1970, and one.
    const TO_1970: i64 = 719_469;
    Some(Time { seconds: (days - TO_1970) * 86_400 + hour * 3600 + minute * 60 + second, nanoseconds: 0 })
}

fn unusable_pattern(bad: &BadPattern, quoter: &Quoter) -> Vec<u8> {
    [b"the pattern ", &quoter.always(bad.pattern.as_bytes())[..], b" cannot be used: ", bad.why.as_bytes()].concat()
}

/// Makes the patterns ready.
pub fn settle_choice(draft: &mut Draft, quoter: &Quoter) -> Result<(), Complaint> {
    let filter = Filter::new(std::mem::take(&mut draft.choice));
    draft.plan.filter = filter.map_err(|bad| fatal(unusable_pattern(&bad, quoter)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_dates_in_utc() {
        for (text, seconds) in [
            ("@0", 0),
            ("@-5", -5),
            ("@1700000000", 1_700_000_000),
            ("1970-01-01", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29", 951_782_400),
            ("2000-03-01", 951_868_800),
            ("2026-01-31T12:30:05Z", 1_769_862_605),
            ("0000-03-01", -62_162_035_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(time(text), Some(Time { seconds, nanoseconds: 0 }), "{text}");
        }
        for text in [
            "",
            "@",
            "@x",
            "@1.5",
            "@+1",
            "1",
            "7d",
            "2026",
            "2026-1-31",
            "2026-13-01",
            "2026-00-01",
            "2025-02-29",
            "1900-02-29",
            "2026-04-31",
            "2026-01-31T12:00:00",
            "2026-01-31T24:00:00Z",
            "2026-01-31 12:00:00Z",
            "2026-01-31-01",
            "@99999999999999999999",
            "-026-01-31",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
