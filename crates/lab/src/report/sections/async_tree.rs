//! Trees copied with many requests in flight, against cp.

use haul_measure::stats::{self, Ratio};
use haul_measure::words;

use super::claims::{Direction, claim, judge};
use super::copies;
use super::heading::begun;
use crate::report::text;
use crate::results::{Case, Results, Section};
use crate::view::{Cell, Chart, Claim, Column, Published, Table, View};

/// What is measured against cp, in the order in which it is shown.
const ENGINES: [&str; 4] = ["posix-aio", "linux-aio", "io-uring", "auto"];
/// What may be added to an engine.
const VARIANTS: [&str; 3] = ["readahead", "preallocate", "priority"];
/// A copy that takes no more than this share longer than the quickest was a good choice.
const GOOD: f64 = 1.1;
/// How far a thing that does nothing may move a time.
const NOTHING: f64 = 0.05;

/// A tree, and everything that was measured with it.
struct Tree<'c> {
    size: u64,
    files: u64,
    cases: Vec<&'c Case>,
}

impl<'c> Tree<'c> {
    fn name(&self) -> String {
        format!("{} in {}", megabytes(self.size), text::count(self.files as usize, "file"))
    }

    fn get(&self, engine: &str, variant: &str) -> Option<&'c Case> {
        let is = |case: &Case, name: &str, value: &str| case.parameters.get(name).is_some_and(|known| known == value);
        let right = |case: &&&Case| case.is_ranked() && is(case, "engine", engine) && is(case, "variant", variant);
        let named = if variant == "plain" { engine.to_owned() } else { format!("{engine}, {variant}") };
        self.cases.iter().find(right).copied().or_else(|| copies::find(&self.cases, &named))
    }

    /// An engine against cp.
    fn ratio(&self, engine: &str, variant: &str) -> Option<Ratio> {
        copies::ratio(self.get(engine, variant), self.get("cp", "plain"), copies::returned)
    }
}

fn megabytes(size: u64) -> String {
    match size {
        size if size > 0 && size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        size if size > 0 && size.is_multiple_of(1_000_000) => format!("{} MB", size / 1_000_000),
        size => words::bytes(size),
    }
}

/// The section as it is shown.
pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "When does a copier with many requests in flight beat cp on a tree, what helps it, and can a copier predict it?",
    );
    let trees = trees(section);
    view.summary.extend(engines_in_short(&trees));
    view.summary.extend(heuristic(&trees));
    view.summary.push(copies::measured(results, section));
    view.charts.extend(ENGINES.iter().filter_map(|engine| heat(&trees, engine)));
    view.tables.extend(choices(&trees));
    view.tables.extend(variants(&trees));
    copies::fill(&mut view, section);
    view.published = Some(published(&trees));
    view
}

fn trees(section: &Section) -> Vec<Tree<'_>> {
    let tree = |(_, cases): (&str, Vec<&'_ Case>)| {
        let number = |name: &str| cases.iter().find_map(|case| case.parameters.get(name)?.parse().ok());
        (number("size").unwrap_or_default(), number("files").unwrap_or_default())
    };
    let mut trees: Vec<Tree> = Vec::new();
    for (name, cases) in copies::groups(section) {
        let (size, files) = tree((name, cases.clone()));
        trees.push(Tree { size, files, cases });
    }
    trees.sort_by_key(|tree| (tree.size, tree.files));
    trees
}

fn engines_in_short(trees: &[Tree]) -> Vec<String> {
    let mut words: Vec<String> = overall(trees).into_iter().collect();
    for engine in ENGINES {
        let ratios: Vec<(String, Ratio)> =
            trees.iter().filter_map(|tree| Some((tree.name(), tree.ratio(engine, "plain")?))).collect();
        if ratios.is_empty() {
            continue;
        }
        let count = |side| ratios.iter().filter(|(_, ratio)| ratio.side(1.0) == side).count();
        let (quicker, slower) = (count(Some(std::cmp::Ordering::Less)), count(Some(std::cmp::Ordering::Greater)));
        let least = ratios.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let best = least.map(|(name, ratio)| format!("; at its best it takes {}, at {name}", short_ratio(ratio)));
        words.push(format!(
            "{engine}: of {}, quicker than cp in {quicker}, slower in {slower}, no significant difference in {}{}.",
            text::count(ratios.len(), "tree"),
            count(None),
            best.unwrap_or_default()
        ));
    }
    words
}

/// `0.82 times the time of cp`, with the interval if there is one.
fn short_ratio(ratio: &Ratio) -> String {
    match ratio.interval {
        Some(_) => text::times_as(ratio, "the time of cp"),
        None => format!("{:.2} times the time of cp", ratio.value),
    }
}

/// Each engine against cp, over all trees.
fn overall(trees: &[Tree]) -> Option<String> {
    let ratios: Vec<(&str, Ratio)> =
        ENGINES.iter().filter_map(|engine| Some((*engine, against_cp(trees, engine, |_| true)?))).collect();
    let with_intervals = ratios.iter().all(|(_, ratio)| ratio.interval.is_some());
    let say = |(engine, ratio): &(&str, Ratio)| match with_intervals {
        true => format!("{engine} {}", text::ratio(ratio)),
        false => format!("{engine} {:.2}", ratio.value),
    };
    let engines = words::list(&ratios.iter().map(say).collect::<Vec<_>>());
    let note = if with_intervals { "with their intervals" } else { "too few runs for intervals" };
    (!ratios.is_empty())
        .then(|| format!("Over all trees, in times the time of cp (geometric means, {note}): {engines}."))
}

/// Whether `auto` picks well, which is what the authors wished for.
fn heuristic(trees: &[Tree]) -> Option<String> {
    let against: Vec<(String, Ratio)> =
        trees.iter().filter_map(|tree| Some((tree.name(), against_best(tree)?.1))).collect();
    if against.is_empty() {
        return None;
    }
    let good = against.iter().filter(|(_, ratio)| ratio.value <= GOOD).count();
    let (worst, ratio) = against.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    Some(format!(
        "The heuristic that the authors wished for: auto is within 10 % of the quickest plain copier in {good} of {}; at worst it takes {} ({worst}).",
        text::count(against.len(), "tree"),
        text::times_as(ratio, "as long")
    ))
}

/// The quickest of all plain copiers but auto, and auto against it.
fn against_best<'c>(tree: &Tree<'c>) -> Option<(&'c Case, Ratio)> {
    let plain = ["cp", "posix-aio", "linux-aio", "io-uring"].into_iter().filter_map(|engine| tree.get(engine, "plain"));
    let time = |case: &Case| copies::median(case, copies::returned).unwrap_or(f64::INFINITY);
    let best = plain.min_by(|a, b| time(a).total_cmp(&time(b)))?;
    Some((best, copies::ratio(tree.get("auto", "plain"), Some(best), copies::returned)?))
}

/// Time against cp, by size and number of files.
fn heat(trees: &[Tree], engine: &str) -> Option<Chart> {
    let mut sizes: Vec<u64> = trees.iter().map(|tree| tree.size).collect();
    let mut files: Vec<u64> = trees.iter().map(|tree| tree.files).collect();
    for list in [&mut sizes, &mut files] {
        list.sort_unstable();
        list.dedup();
    }
    let value = |size: u64, files: u64| {
        let tree = trees.iter().find(|tree| tree.size == size && tree.files == files)?;
        let time = |engine| copies::median(tree.get(engine, "plain")?, copies::returned);
        Some(time(engine)? / time("cp").filter(|time| *time > 0.0)?)
    };
    let values: Vec<Vec<Option<f64>>> =
        sizes.iter().map(|size| files.iter().map(|count| value(*size, *count)).collect()).collect();
    values.iter().flatten().any(Option::is_some).then(|| Chart::Heat {
        title: format!("Time of {engine} against cp"),
        unit: "times cp's time".to_owned(),
        rows: ("size".to_owned(), sizes.into_iter().map(megabytes).collect()),
        columns: ("files".to_owned(), files.iter().map(u64::to_string).collect()),
        values,
        level: Some(1.0),
    })
}

fn choices(trees: &[Tree]) -> Option<Table> {
    let row = |tree: &Tree| {
        let (best, ratio) = against_best(tree)?;
        let time = copies::median(best, copies::returned)?;
        let verdict = if ratio.value <= GOOD { "a good choice" } else { "not the best choice" };
        Some(vec![
            Cell::text(tree.name()),
            Cell::text(&best.competitor),
            Cell::figure(time, words::seconds(time)),
            Cell::figure(ratio.value, text::ratio(&ratio)),
            Cell::text(verdict),
        ])
    };
    let rows: Vec<Vec<Cell>> = trees.iter().filter_map(row).collect();
    let columns = vec![
        Column::words("tree"),
        Column::words("quickest plain copier"),
        Column::figures("its time"),
        Column::figures("auto against it"),
        Column::words("auto was"),
    ];
    (!rows.is_empty()).then(|| Table { title: "Does auto pick well?".to_owned(), columns, rows, note: None })
}

/// A variant against the plain copier, over all trees for which `wanted` holds.
fn pooled(trees: &[Tree], engine: &str, variant: &str, wanted: impl Fn(&Tree) -> bool) -> Option<Ratio> {
    let pair = |tree: &Tree| {
        let (of, base) = (tree.get(engine, variant)?, tree.get(engine, "plain")?);
        Some((of.figures(copies::returned), base.figures(copies::returned)))
    };
    stats::pooled(&trees.iter().filter(|tree| wanted(tree)).filter_map(pair).collect::<Vec<_>>())
}

fn variants(trees: &[Tree]) -> Option<Table> {
    let mut rows = Vec::new();
    for engine in ["cp"].iter().chain(&ENGINES) {
        let ratios: Vec<Option<Ratio>> =
            VARIANTS.iter().map(|variant| pooled(trees, engine, variant, |_| true)).collect();
        if ratios.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![Cell::text(*engine)];
        row.extend(ratios.into_iter().map(|ratio| match ratio {
            Some(ratio) => Cell::figure(ratio.value, text::ratio(&ratio)),
            None => Cell::text("-"),
        }));
        rows.push(row);
    }
    let mut columns = vec![Column::words("engine")];
    columns.extend(VARIANTS.map(|variant| Column::figures(format!("with {variant}"))));
    let note = "Geometric mean over all trees; under 1 it helps.".to_owned();
    let title = "What additions do to the time".to_owned();
    (!rows.is_empty()).then_some(Table { title, columns, rows, note: Some(note) })
}

fn published(trees: &[Tree]) -> Published {
    let smallest = trees.iter().map(|tree| tree.size).min().unwrap_or_default();
    let largest = trees.iter().map(|tree| tree.size).max().unwrap_or_default();
    let mut claims = vec![
        at_least_cp(trees, smallest),
        both_beat(trees),
        readahead_fastest(trees),
        readahead_helps_posix_most(trees),
    ];
    let preallocated = |size: u64| {
        let pair = |engine: &str| pooled(trees, engine, "preallocate", |tree| tree.size == size);
        ENGINES.iter().filter_map(|engine| pair(engine)).min_by(|a, b| a.value.total_cmp(&b.value))
    };
    claims.push(claim(
        "Allocating the destination first helps where files are large",
        &format!("At {}, the engine that it helps most takes", megabytes(largest)),
        "its plain time",
        preallocated(largest).as_ref(),
        Direction::Under(1.0),
    ));
    let priority = ["posix-aio", "linux-aio"].map(|engine| pooled(trees, engine, "priority", |_| true));
    let priority = priority.into_iter().flatten().max_by(|a, b| a.value.ln().abs().total_cmp(&b.value.ln().abs()));
    claims.push(claim(
        "A higher priority does nothing for work that waits for devices",
        "Of the two published copiers, the one that it moves most takes",
        "its plain time",
        priority.as_ref(),
        Direction::Same(NOTHING),
    ));
    Published {
        by: "cp -r against copiers on POSIX AIO and on Linux AIO with O_DIRECT, 2019; trees of 100 to 2000 MB in 32 to 256 \
             files, caches dropped before every run, on a disk and an SSD. Directions were published, and no times."
            .to_owned(),
        table: Table::default(),
        claims,
    }
}

/// The geometric mean of an engine against cp, over the trees for which `wanted` holds.
fn against_cp(trees: &[Tree], engine: &str, wanted: impl Fn(&Tree) -> bool) -> Option<Ratio> {
    let pair = |tree: &Tree| {
        let (of, base) = (tree.get(engine, "plain")?, tree.get("cp", "plain")?);
        Some((of.figures(copies::returned), base.figures(copies::returned)))
    };
    stats::pooled(&trees.iter().filter(|tree| wanted(tree)).filter_map(pair).collect::<Vec<_>>())
}

fn at_least_cp(trees: &[Tree], smallest: u64) -> Claim {
    let ratios = ["posix-aio", "linux-aio"].map(|engine| against_cp(trees, engine, |tree| tree.size == smallest));
    let quickest = ratios.iter().flatten().min_by(|a, b| a.value.total_cmp(&b.value));
    claim(
        "In small trees the overhead dominates: neither asynchronous copier beats cp",
        &format!("At {}, the better of the two takes", megabytes(smallest)),
        "the time of cp",
        quickest,
        Direction::Over(1.0),
    )
}

fn both_beat(trees: &[Tree]) -> Claim {
    let tree = trees
        .iter()
        .filter(|tree| tree.size <= 1_100_000_000)
        .max_by_key(|tree| (tree.size, std::cmp::Reverse(tree.files)));
    let ratios = ["posix-aio", "linux-aio"].map(|engine| tree.and_then(|tree| tree.ratio(engine, "plain")));
    let slower = ratios.iter().flatten().max_by(|a, b| a.value.total_cmp(&b.value));
    let slower = slower.filter(|_| ratios.iter().all(Option::is_some));
    claim(
        "Both beat cp at 1000 MB in 32 files",
        &format!("At {}, the slower of the two takes", tree.map(Tree::name).unwrap_or_default()),
        "the time of cp",
        slower,
        Direction::Under(1.0),
    )
}

fn readahead_fastest(trees: &[Tree]) -> Claim {
    let says = "Linux AIO with readahead is the fastest at 2000 MB in 256 files".to_owned();
    let nothing = |says: String| Claim { says, here: "This was not measured here.".to_owned(), agrees: None };
    let Some(tree) = trees.last() else { return nothing(says) };
    let Some(linux) = tree.get("linux-aio", "readahead") else { return nothing(says) };
    let published = [("cp", "plain"), ("posix-aio", "plain"), ("posix-aio", "readahead"), ("linux-aio", "plain")];
    let others = published.into_iter().filter_map(|(engine, variant)| tree.get(engine, variant));
    let ratios: Vec<(String, Ratio)> = others
        .filter_map(|other| {
            Some((other.competitor.clone(), copies::ratio(Some(linux), Some(other), copies::returned)?))
        })
        .collect();
    let Some((name, worst)) = ratios.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value)) else {
        return nothing(says);
    };
    let verdicts: Vec<Option<bool>> =
        ratios.iter().map(|(_, ratio)| judge(Some(ratio), Direction::Under(1.0))).collect();
    let agrees = if verdicts.contains(&Some(false)) {
        Some(false)
    } else {
        verdicts.iter().all(|verdict| *verdict == Some(true)).then_some(true)
    };
    let here = format!("At {}, it takes {}, against {name}.", tree.name(), text::times_as(worst, "as long"));
    Claim { says, here, agrees }
}

fn readahead_helps_posix_most(trees: &[Tree]) -> Claim {
    let says = "Readahead helps the copier on POSIX AIO most".to_owned();
    let of = |engine| pooled(trees, engine, "readahead", |_| true);
    let (Some(posix), Some(linux)) = (of("posix-aio"), of("linux-aio")) else {
        return Claim { says, here: "This was not measured here.".to_owned(), agrees: None };
    };
    let agrees = match (posix.interval, linux.interval) {
        (Some((_, most)), Some((least, _))) if most < least => Some(true),
        (Some((least, _)), Some((_, most))) if most < least => Some(false),
        _ => None,
    };
    let here = format!(
        "With it, POSIX AIO takes {}, and Linux AIO {}.",
        text::times_as(&posix, "its plain time"),
        text::times_as(&linux, "its plain time")
    );
    Claim { says, here, agrees }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::fixtures::{case, results, section, timed};

    fn measured(set: &[(u64, u64, &str, &str, f64)]) -> View {
        let mut section = section("async-tree");
        for (size, files, engine, variant, seconds) in set {
            let bytes = size * 1_000_000;
            let mut case =
                case(&format!("{size} MB in {files} files"), &format!("{engine}, {variant}"), bytes, &timed(*seconds));
            let (size, files) = (bytes.to_string(), files.to_string());
            for (name, value) in [("size", &*size), ("files", &files), ("engine", engine), ("variant", variant)] {
                case.parameters.insert(name.to_owned(), value.to_owned());
            }
            section.cases.push(case);
        }
        let results = results(vec![section]);
        view(&results, &results.sections[0])
    }

    fn verdicts(view: &View) -> Vec<Option<bool>> {
        view.published.iter().flat_map(|published| &published.claims).map(|claim| claim.agrees).collect()
    }

    #[test]
    fn the_published_directions_are_judged_by_intervals() {
        let view = measured(&[
            (100, 32, "cp", "plain", 1.0),
            (100, 32, "posix-aio", "plain", 1.5),
            (100, 32, "linux-aio", "plain", 1.3),
            (1000, 32, "cp", "plain", 2.0),
            (1000, 32, "posix-aio", "plain", 1.5),
            (1000, 32, "linux-aio", "plain", 1.4),
            (1000, 32, "posix-aio", "readahead", 1.0),
            (1000, 32, "linux-aio", "readahead", 1.35),
            (1000, 32, "linux-aio", "priority", 1.4),
        ]);
        assert_eq!(verdicts(&view), [Some(true), Some(true), Some(false), Some(true), None, Some(true)]);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(verdicts(&measured(&[])), [None; 6]);
    }

    #[test]
    fn a_field_holds_the_ratio_to_cp() {
        let view =
            measured(&[(100, 32, "cp", "plain", 2.0), (100, 32, "auto", "plain", 1.0), (500, 64, "cp", "plain", 2.0)]);
        let Some(Chart::Heat { rows, columns, values, .. }) = view.charts.first() else { panic!("{:?}", view.charts) };
        assert_eq!(
            (rows.1.as_slice(), columns.1.as_slice()),
            (&["100 MB", "500 MB"].map(str::to_owned)[..], &["32", "64"].map(str::to_owned)[..])
        );
        assert_eq!(values, &[vec![Some(0.5), None], vec![None, None]]);
    }
}
