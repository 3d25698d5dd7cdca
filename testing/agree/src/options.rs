//! Random command lines: every option of cp 9.1, sensible ones more often than not.

use fastrand::Rng;

/// Words of the command line that belong together and are removed together.
pub type Words = Vec<Vec<u8>>;

/// Whether a word is one of these options, the long ones with a value or without.
pub(crate) fn begins(word: &[u8], options: &[&str]) -> bool {
    options.iter().any(|option| match option.starts_with("--") {
        true => word.starts_with(option.as_bytes()),
        false => word == option.as_bytes(),
    })
}

fn words(list: &[&str]) -> Words {
    list.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Each with its weight. Options whose abbreviations newer versions made ambiguous are left out.
const ALONE: &[(u32, &str)] = &[
    (6, "-f"),
    (2, "--force"),
    (5, "-l"),
    (2, "--link"),
    (5, "-s"),
    (1, "--symbolic-link"),
    (8, "-n"),
    (2, "--no-clobber"),
    (8, "-u"),
    (2, "--update"),
    (9, "-v"),
    (3, "--verbose"),
    (6, "-b"),
    (5, "-T"),
    (2, "--no-target-directory"),
    (7, "--parents"),
    (7, "--remove-destination"),
    (4, "--attributes-only"),
    (3, "--copy-contents"),
    (5, "--strip-trailing-slashes"),
    (6, "-x"),
    (2, "--one-file-system"),
    (5, "-H"),
    (6, "-L"),
    (2, "--dereference"),
    (6, "-P"),
    (2, "--no-dereference"),
    (6, "-d"),
    (9, "-p"),
    (5, "-i"),
    (1, "--interactive"),
    (2, "-Z"),
    (1, "--context"),
    (1, "--context=foo_t"),
    (3, "--reflink"),
    (3, "--backup"),
    (4, "--preserve"),
    (1, "--archive"),
    (1, "--recursive"),
    (1, "--par"),
    (1, "--attr"),
    (1, "--remove-d"),
    (1, "--strip"),
    (1, "--no-c"),
    (1, "--ar"),
    (1, "-fv"),
    (1, "-vu"),
    (1, "-pP"),
    (1, "-bf"),
];

const WITH_VALUE: &[(u32, &str, &[&str])] = &[
    (
        9,
        "--backup",
        // Not `simple` and `never`: cp 9.1 then puts the backup into the working directory.
        &["none", "off", "numbered", "t", "existing", "nil", "n", "e", "nu", "o", "bogus", ""],
    ),
    (6, "--reflink", &["auto", "always", "never", "al", "bogus"]),
    (10, "--sparse", &["auto", "always", "never", "a", "n", "bogus", ""]),
    (
        16,
        "--preserve",
        &[
            "mode",
            "ownership",
            "timestamps",
            "links",
            "xattr",
            "context",
            "all",
            "mode,timestamps",
            "ownership,links",
            "mode,xattr",
            "links,mode,ownership,timestamps",
            "time",
            "bogus",
            "mode,bogus",
            "",
            "m",
        ],
    ),
    (
        8,
        "--no-preserve",
        &["mode", "ownership", "timestamps", "links", "xattr", "context", "all", "mode,ownership", "links,xattr", "x"],
    ),
    (5, "--suffix", &[".bak", "~", "x", "/x", "", ".", "-"]),
];

const BAD: &[&str] = &["--bogus", "-Q", "--no", "-w", "--recursive=yes", "--reflink=", "--preserve=mode,,links"];

fn weighted<'a, T>(rng: &mut Rng, list: &'a [T], weight: impl Fn(&T) -> u32) -> &'a T {
    let total: u32 = list.iter().map(&weight).sum();
    let mut at = rng.u32(..total);
    list.iter()
        .find(|item| {
            let hit = at < weight(item);
            at = at.saturating_sub(weight(item));
            hit
        })
        .unwrap_or(&list[0])
}

/// The options of one command line, without `-t`.
pub fn random(rng: &mut Rng) -> Vec<Words> {
    let mut options = Vec::new();
    match rng.u8(..100) {
        0..32 => options.push(words(&["-a"])),
        32..50 => options.push(words(&["-r"])),
        50..60 => options.push(words(&["-R"])),
        60..68 => options.push(words(&["-rp"])),
        68..72 => options.push(words(&["-dR"])),
        72..76 => options.push(words(&["-rL"])),
        _ => {}
    }
    while rng.u8(..100) < 62 {
        let option = match rng.u8(..100) {
            0..64 => words(&[weighted(rng, ALONE, |item| item.0).1]),
            64..66 => words(&[BAD[rng.usize(..BAD.len())]]),
            66..70 => {
                let suffixes = [".bak", "~", ".x y", "/y"];
                words(&["-S", suffixes[rng.usize(..suffixes.len())]])
            }
            _ => {
                let (_, name, values) = weighted(rng, WITH_VALUE, |item| item.0);
                let value = values[rng.usize(..values.len())];
                let joined = format!("{name}={value}");
                // A value that is optional must be joined.
                let split = matches!(*name, "--sparse" | "--no-preserve" | "--suffix") && rng.u8(..4) == 0;
                if split { words(&[name, value]) } else { words(&[&joined]) }
            }
        };
        options.insert(rng.usize(..=options.len()), option);
    }
    options
}

/// Variables that cp heeds.
pub fn environment(rng: &mut Rng) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut add = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    if rng.u8(..100) < 12 {
        let values = ["numbered", "existing", "none", "t", "nil", "off", "bogus", ""];
        add("VERSION_CONTROL", values[rng.usize(..values.len())]);
    }
    if rng.u8(..100) < 12 {
        let values = [".env", "~", "", "a/b", "."];
        add("SIMPLE_BACKUP_SUFFIX", values[rng.usize(..values.len())]);
    }
    if rng.u8(..100) < 10 {
        add("POSIXLY_CORRECT", "1");
    }
    add("LC_ALL", if rng.u8(..100) < 85 { "C" } else { "C.UTF-8" });
    variables
}
