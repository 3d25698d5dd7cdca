//! A profile from its text. Errors name the line and the key of the first mistake.

use std::ops::Range;

use crate::engine::EngineName;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::types::{
    DEEPEST, Entry, FORMAT, LARGEST_BUFFER, LONGEST, LONGEST_POOL, MOST_JOBS, MOST_STRIPES, MOST_WORKERS, Measured,
    Place, PlaceEntry, Profile, STRIPE_UNIT, Setting, SizeClass, Source, StripeCount, Stripes, Striping, UNITS,
    VERSION, may_be_preferred,
};

/// Reads a profile. `origin` is where the text is from, for people.
///
/// # Errors
/// The first mistake, with its line: it is no TOML, a key is unknown or missing, a value cannot be, or it is of another
/// version.
pub fn parse(text: &str, origin: &str) -> Result<Profile, String> {
    if text.len() > LONGEST {
        return Err(format!("longer than {LONGEST} bytes: this is no profile"));
    }
    let root = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        let message: String = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("line {line}{}: {message}", key_on(text, line))
    })?;
    let root = Table { text, span: root.span(), table: root.get_ref(), path: "" };
    // First of all, since another version may have other keys.
    let format = root.value("format")?.text()?;
    if format != FORMAT {
        return Err(root.value("format")?.mistake(&format!("expected {FORMAT:?}")));
    }
    let version = root.value("version")?;
    if version.integer()? != VERSION {
        return Err(version.mistake(&format!("this haul reads version {VERSION}")));
    }
    root.known(&["format", "version", "place"])?;
    let places = root.tables("place")?.into_iter().map(|table| place(&table, origin));
    Ok(Profile { places: places.collect::<Result<_, _>>()? })
}

fn place(table: &Table<'_>, origin: &str) -> Result<PlaceEntry, String> {
    table.known(&["directory", "filesystem", "id", "device", "files", "stripes"])?;
    let place = Place {
        filesystem: table.value("filesystem")?.text()?.to_owned(),
        id: table.value("id")?.text()?.to_owned(),
        device: table.optional("device").map_or(Ok(""), |value| value.text())?.to_owned(),
    };
    if place.id.is_empty() {
        return Err(table.value("id")?.mistake("it must name a filesystem"));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for table in table.tables("files")? {
        let entry = entry(&table)?;
        let same = |old: &Entry| {
            old.class == entry.class && (old.source.is_none() || entry.source.is_none() || old.source == entry.source)
        };
        if entries.iter().any(same) {
            return Err(table.value("size")?.mistake("an entry before says something of these files already"));
        }
        entries.push(entry);
    }
    let directory = table.optional("directory").map_or(Ok(""), |value| value.text())?.to_owned();
    Ok(PlaceEntry { origin: origin.to_owned(), directory, place, entries, striping: striping(table)? })
}

/// How new files are striped at a place.
fn striping(place: &Table<'_>) -> Result<Striping, String> {
    let mut striping = Striping::default();
    for table in place.tables("stripes")? {
        table.known(&["as", "from", "count", "size", "pool"])?;
        if let Some(like) = table.optional("as") {
            if like.text()? != "source" {
                return Err(like.mistake("expected \"source\""));
            }
            if let Some(other) = ["from", "count", "size", "pool"].into_iter().find_map(|key| table.optional(key)) {
                return Err(other.mistake("the source says that"));
            }
            striping.as_source = true;
            continue;
        }
        let stripes = stripes(&table)?;
        if striping.by_size.iter().any(|other| other.from == stripes.from) {
            let first = table.optional("from").map_or_else(|| table.value("count"), Ok)?;
            return Err(first.mistake("stripes before begin with files of the same size already"));
        }
        striping.by_size.push(stripes);
    }
    Ok(striping)
}

fn stripes(table: &Table<'_>) -> Result<Stripes, String> {
    let from = table.optional("from").map_or(Ok(0), |value| value.bytes(0, u64::MAX >> 1))?;
    let count = table.value("count")?;
    let count = match count.value.get_ref().as_str() {
        Some("all") => StripeCount::All,
        Some(_) => return Err(count.mistake(&format!("expected 1 to {MOST_STRIPES}, or \"all\""))),
        None => StripeCount::Of(u16::try_from(count.count(usize::from(MOST_STRIPES))?).unwrap_or(MOST_STRIPES)),
    };
    let size = table.optional("size").map(|value| {
        let size = value.bytes(1, u64::from(u32::MAX))?;
        let size = u32::try_from(size).ok().filter(|size| size.is_multiple_of(STRIPE_UNIT));
        size.ok_or_else(|| value.mistake(&format!("expected a multiple of {STRIPE_UNIT} bytes")))
    });
    let pool = table.optional("pool").map_or(Ok(String::new()), |value| value.pool())?;
    Ok(Stripes { from, count, size: size.transpose()?, pool })
}

fn entry(table: &Table<'_>) -> Result<Entry, String> {
    table.known(&["size", "source", "engine", "buffer", "depth", "workers", "jobs", "date", "on", "gain", "runs"])?;
    let size = table.value("size")?;
    let class: SizeClass = size.text()?.parse().map_err(|()| {
        let words = SizeClass::ALL.map(SizeClass::as_str).join(", ");
        size.mistake(&format!("expected one of {words}"))
    })?;
    let source = table.optional("source").map(|value| match value.text()? {
        "cached" => Ok(Source::Cached),
        "cold" => Ok(Source::Cold),
        _ => Err(value.mistake("expected cached or cold")),
    });
    if let Some(value) = table.optional("source").filter(|_| class < SizeClass::Medium) {
        return Err(value.mistake("haul does not ask whether files below 4 MiB are cached"));
    }
    let engine = table.optional("engine").map(|value| engine(&value));
    let count = |key, most| table.optional(key).map(|value| value.count(most)).transpose();
    let setting = Setting {
        engine: engine.transpose()?,
        buffer_size: table.optional("buffer").map(|value| value.size()).transpose()?,
        depth: count("depth", DEEPEST)?,
        workers: count("workers", MOST_WORKERS)?,
    };
    let words = |key| table.optional(key).map_or(Ok(""), |value| value.text()).map(str::to_owned);
    let measured = Measured {
        date: words("date")?,
        on: words("on")?,
        gain: table.optional("gain").map(|value| value.number()).transpose()?,
        runs: count("runs", 1_000_000)?.and_then(|runs| u32::try_from(runs).ok()),
    };
    let jobs = count("jobs", MOST_JOBS)?;
    Ok(Entry { class, source: source.transpose()?, setting, jobs, measured })
}

fn engine(value: &Value<'_>) -> Result<EngineName, String> {
    let word = value.text()?;
    let known = EngineName::ALL.into_iter().filter(|engine| may_be_preferred(*engine));
    known.clone().find(|engine| engine.as_str() == word).ok_or_else(|| {
        let names: Vec<&str> = known.map(EngineName::as_str).collect();
        value.mistake(&format!("expected one of {}", names.join(", ")))
    })
}

/// A table, and where it stands.
struct Table<'a> {
    text: &'a str,
    span: Range<usize>,
    table: &'a DeTable<'a>,
    path: &'static str,
}

/// A value, its key, and where it stands.
struct Value<'a> {
    text: &'a str,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Table<'a> {
    fn optional(&self, key: &str) -> Option<Value<'a>> {
        let (key, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Value { text: self.text, key: key.get_ref(), value })
    }

    fn value(&self, key: &str) -> Result<Value<'a>, String> {
        self.optional(key).ok_or_else(|| {
            let line = line_of(self.text, self.span.start);
            let of = if self.path.is_empty() { String::new() } else { format!(" in [[{}]]", self.path) };
            format!("line {line}: the key \"{key}\" is missing{of}")
        })
    }

    /// Refuses other keys.
    fn known(&self, keys: &[&str]) -> Result<(), String> {
        let strange = self.table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref()));
        match strange.min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let line = line_of(self.text, key.span().start);
                Err(format!("line {line}: unknown key {:?}; known are {}", key.get_ref(), keys.join(", ")))
            }
        }
    }

    /// The tables of an array of tables, which may be missing.
    fn tables(&self, key: &'static str) -> Result<Vec<Table<'a>>, String> {
        let Some(value) = self.optional(key) else { return Ok(Vec::new()) };
        let path = match key {
            "files" => "place.files",
            "stripes" => "place.stripes",
            key => key,
        };
        let wrong = || value.mistake(&format!("expected tables, each begun by [[{path}]]"));
        let array = value.value.get_ref().as_array().ok_or_else(wrong)?;
        let table = |item: &'a Spanned<DeValue<'a>>| {
            let table = item.get_ref().as_table().ok_or_else(wrong)?;
            Ok(Table { text: self.text, span: item.span(), table, path })
        };
        array.iter().map(table).collect()
    }
}

impl<'a> Value<'a> {
    fn mistake(&self, why: &str) -> String {
        format!("line {}: bad value of the key {:?}: {why}", line_of(self.text, self.value.span().start), self.key)
    }

    fn text(&self) -> Result<&'a str, String> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.mistake("expected words in quotes"))?;
        // They are shown on terminals.
        if text.chars().any(char::is_control) {
            return Err(self.mistake("control characters are not allowed"));
        }
        Ok(text)
    }

    fn integer(&self) -> Result<i64, String> {
        let integer = self.value.get_ref().as_integer().ok_or_else(|| self.mistake("expected a whole number"))?;
        let digits = integer.as_str().replace('_', "");
        i64::from_str_radix(&digits, integer.radix()).map_err(|_| self.mistake("the number is too large"))
    }

    /// From 1 to `most`.
    fn count(&self, most: usize) -> Result<usize, String> {
        let number = usize::try_from(self.integer()?).ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| self.mistake(&format!("expected 1 to {most}")))
    }

    /// The size of a buffer.
    fn size(&self) -> Result<usize, String> {
        self.bytes(1, LARGEST_BUFFER as u64).map(|bytes| bytes as usize)
    }

    /// A number of bytes, or one with K, M, G or T: `262144`, `"256K"`.
    fn bytes(&self, least: u64, most: u64) -> Result<u64, String> {
        let bytes = match self.value.get_ref().as_str() {
            None => u64::try_from(self.integer()?).ok(),
            Some(text) => {
                let unit = UNITS.iter().find_map(|(letter, shift)| Some((text.strip_suffix(*letter)?, *shift)));
                let (digits, shift) = unit.unwrap_or((text, 0));
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let number = plain.then(|| digits.parse::<u64>().ok()).flatten();
                number.and_then(|number| number.checked_mul(1 << shift))
            }
        };
        bytes
            .filter(|bytes| (least..=most).contains(bytes))
            .ok_or_else(|| self.mistake(&format!("expected {least} to {most} bytes, as 262144 or \"256K\" or \"8M\"")))
    }

    /// The name of a pool of Lustre.
    fn pool(&self) -> Result<String, String> {
        let name = self.text()?;
        let fits = (1..=LONGEST_POOL).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let name = fits.then(|| name.to_owned());
        name.ok_or_else(|| {
            self.mistake(&format!("expected 1 to {LONGEST_POOL} letters, digits, dots, dashes and underscores"))
        })
    }

    fn number(&self) -> Result<f64, String> {
        let value = self.value.get_ref();
        let digits = value.as_float().map(|float| float.as_str().replace('_', ""));
        let number = match digits {
            Some(digits) => digits.parse::<f64>().ok(),
            None => Some(self.integer()? as f64),
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| self.mistake("expected a number"))
    }
}

/// The line of an offset, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The key that a line begins with, in words.
fn key_on(text: &str, line: usize) -> String {
    let line = text.lines().nth(line - 1).unwrap_or_default();
    let key: String =
        line.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
    if key.is_empty() { String::new() } else { format!(", key {key:?}") }
}
