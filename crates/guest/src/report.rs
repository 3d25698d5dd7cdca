//! What is known of each region of an image, for people and for programs.

use std::fmt::{self, Write as _};
use std::io;

use crate::extents::{Extent, ExtentSet};
use crate::image::{ReadAt, Witness};
use crate::refusal::Refusal;

/// What became of one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its allocation map was understood and proven.
    Mapped {
        /// What the proof rests on.
        evidence: Vec<String>,
    },
    /// Known by its signature, and never looked into (LUKS, BitLocker, ZFS ...).
    Opaque {
        /// Why, if the kind does not say it.
        reason: Option<&'static str>,
    },
    /// No known signature.
    Unknown,
    /// Understood in kind, but nothing could be proven.
    Refused(Refusal),
    /// The tables, gaps and tails around partitions and volumes.
    Framework,
}

impl Verdict {
    /// One word for reports that programs read.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Mapped { .. } => "mapped",
            Verdict::Opaque { .. } => "opaque",
            Verdict::Unknown => "unknown",
            Verdict::Refused(_) => "refused",
            Verdict::Framework => "framework",
        }
    }

    /// Why nothing of it is free, in words; `None` if something may be, or the verdict says it.
    pub fn reason(&self) -> Option<String> {
        match self {
            Verdict::Opaque { reason } => reason.map(str::to_owned),
            Verdict::Refused(refusal) => Some(refusal.to_string()),
            Verdict::Mapped { .. } | Verdict::Unknown | Verdict::Framework => None,
        }
    }

    /// What the proof rests on; empty if there is none.
    pub fn evidence(&self) -> &[String] {
        match self {
            Verdict::Mapped { evidence } => evidence,
            _ => &[],
        }
    }
}

/// One region: a filesystem, a volume group's free space, an unknown partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Where it is: "whole disk", "GPT partition 2", "LVM volume vg0/root".
    pub place: String,
    /// Its bytes in the image: one extent for a partition, perhaps several for a volume, in the volume's order.
    pub extents: Vec<Extent>,
    /// The kind ("ext4", "swap", "crypto_LUKS"), if there is a signature.
    pub kind: Option<&'static str>,
    /// What could be proven.
    pub verdict: Verdict,
    /// How many of its bytes are provably free, in whole granules of the map.
    pub free: u64,
    /// How many of those are in files whose contents may be dropped (swap, page files).
    pub dropped: u64,
}

impl Region {
    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len).sum()
    }

    /// How many of its bytes count as used.
    pub fn used(&self) -> u64 {
        self.size().saturating_sub(self.free)
    }

    /// Its lowest offset in the image.
    pub fn start(&self) -> u64 {
        self.extents.iter().map(|extent| extent.start).min().unwrap_or(0)
    }

    fn json(&self) -> String {
        let extents: Vec<String> =
            self.extents.iter().map(|extent| format!("[{},{}]", extent.start, extent.len)).collect();
        let evidence: Vec<String> = self.verdict.evidence().iter().map(|words| quoted(words)).collect();
        let optional = |words: Option<&str>| words.map_or_else(|| "null".to_owned(), quoted);
        format!(
            "{{\"place\":{},\"start\":{},\"len\":{},\"extents\":[{}],\"kind\":{},\"verdict\":{},\"reason\":{},\
             \"evidence\":[{}],\"used\":{},\"free\":{},\"dropped\":{}}}",
            quoted(&self.place),
            self.start(),
            self.size(),
            extents.join(","),
            optional(self.kind),
            quoted(self.verdict.word()),
            optional(self.verdict.reason().as_deref()),
            evidence.join(","),
            self.used(),
            self.free,
            self.dropped,
        )
    }
}

/// What is known of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    /// The length of the image in bytes.
    pub size: u64,
    /// The bytes of the image that are provably free, in whole granules of [`GRANULE`](crate::map::GRANULE) bytes.
    pub free: ExtentSet,
    /// Its regions, by their first byte. Together they cover the image; they overlap where partitions do.
    pub regions: Vec<Region>,
    /// What the map was made from; see [`Map::still_holds`](Map::still_holds).
    pub witnesses: Vec<Witness>,
}

impl Map {
    /// Whether the image still says everything that the map was made from. Reads all of it again.
    pub fn still_holds(&self, image: &dyn ReadAt) -> io::Result<bool> {
        let is_as_long = image.size() == self.size;
        self.witnesses.iter().try_fold(is_as_long, |same, witness| Ok(same && witness.holds(image)?))
    }

    /// The report for programs: one JSON object without line breaks. `extents` are pairs of offset and length, numbers
    /// are bytes, `start` is the lowest offset of a region and `len` the length of all its extents.
    pub fn to_json(&self) -> String {
        let regions: Vec<String> = self.regions.iter().map(Region::json).collect();
        format!("{{\"size\":{},\"free\":{},\"regions\":[{}]}}", self.size, self.free.bytes(), regions.join(","))
    }
}

/// A JSON string.
fn quoted(words: &str) -> String {
    let mut quoted = String::with_capacity(words.len() + 2);
    quoted.push('"');
    for letter in words.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control < ' ' || control == '\x7f' => {
                // Writing to a string cannot fail.
                write!(quoted, "\\u{:04x}", u32::from(control)).unwrap_or_default();
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Bytes for people: three digits and a binary unit.
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1000.0 {
            let digits = if unit == "B" { 0 } else { usize::from(value < 100.0) + usize::from(value < 10.0) };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.0} PiB")
}

const TITLES: [&str; 6] = ["start", "size", "free", "kind", "verdict", "place"];

/// The report for people: a line for each region, in columns.
impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 6]> = self.regions.iter().map(row).collect();
        let mut widths = TITLES.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let titles = TITLES.map(str::to_owned);
        for row in std::iter::once(&titles).chain(&rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                // Numbers to the right, words to the left.
                if column < 3 { write!(line, "{cell:>width$}  ")? } else { write!(line, "{cell:<width$}  ")? }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        let free = self.free.bytes();
        let percent = if self.size == 0 { 0 } else { u128::from(free) * 100 / u128::from(self.size) };
        writeln!(f, "{} of {} are free ({percent} %)", human(free), human(self.size))
    }
}

fn row(region: &Region) -> [String; 6] {
    let explained = match (region.verdict.reason(), region.verdict.evidence()) {
        (Some(reason), _) => format!("{} ({reason})", region.place),
        (None, []) => region.place.clone(),
        (None, evidence) => format!("{} ({})", region.place, evidence.join(", ")),
    };
    [
        region.start().to_string(),
        human(region.size()),
        human(region.free),
        region.kind.unwrap_or("-").to_owned(),
        region.verdict.word().to_owned(),
        explained.replace(char::is_control, "?"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Map {
        let region = |place: &str, start, kind, verdict, free| Region {
            place: place.into(),
            extents: vec![Extent { start, len: 1 << 20 }],
            kind,
            verdict,
            free,
            dropped: 0,
        };
        let evidence = vec!["clean".to_owned(), "counts \"agree\"".to_owned()];
        Map {
            size: 2 << 20,
            free: ExtentSet::of(4096..12288),
            regions: vec![
                region("GPT partition 1", 0, Some("ext4"), Verdict::Mapped { evidence }, 8192),
                region("a\n\\b", 1 << 20, None, Verdict::Refused(Refusal::dirty("\u{1}ä")), 0),
            ],
            witnesses: Vec::new(),
        }
    }

    #[test]
    fn the_report_for_programs_is_json_whatever_the_words_are() {
        assert_eq!(
            map().to_json(),
            concat!(
                r#"{"size":2097152,"free":8192,"regions":["#,
                r#"{"place":"GPT partition 1","start":0,"len":1048576,"extents":[[0,1048576]],"kind":"ext4","#,
                r#""verdict":"mapped","reason":null,"evidence":["clean","counts \"agree\""],"#,
                r#""used":1040384,"free":8192,"dropped":0},"#,
                r#"{"place":"a\u000a\\b","start":1048576,"len":1048576,"extents":[[1048576,1048576]],"kind":null,"#,
                r#""verdict":"refused","reason":"not cleanly unmounted: \u0001ä","evidence":[],"#,
                r#""used":1048576,"free":0,"dropped":0}]}"#,
            )
        );
    }

    #[test]
    fn the_report_for_people_stands_in_columns() {
        let expected = "  start      size      free  kind  verdict  place
      0  1.00 MiB  8.00 KiB  ext4  mapped   GPT partition 1 (clean, counts \"agree\")
1048576  1.00 MiB       0 B  -     refused  a?\\b (not cleanly unmounted: ?ä)
8.00 KiB of 2.00 MiB are free (0 %)
";
        assert_eq!(map().to_string(), expected);
    }

    #[test]
    fn a_map_of_a_changed_image_holds_no_more() {
        let map = Map { size: 4, ..Map::default() };
        assert!(map.still_holds(&vec![0; 4]).unwrap());
        assert!(!map.still_holds(&vec![0; 5]).unwrap());
    }
}
