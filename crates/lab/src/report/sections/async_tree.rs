//! Trees copied with many requests in flight, against cp.

use std::cmp::{Ordering, Reverse};

use haul_measure::stats::{self, Ratio};
use haul_measure::words;

use super::claims::{Said, Source};
use super::copies::{self, RETURNED};
use super::heading::begun;
use crate::report::text;
use crate::results::{Case, Grid, Results, Section};
use crate::view::{Cell, Chart, Claim, Published, Table, Values, View};

/// What is measured against cp, in the order in which it is shown.
const ENGINES: [&str; 4] = ["posix-aio", "linux-aio", "io-uring", "auto"];
/// What may be added to an engine.
const VARIANTS: [&str; 3] = ["readahead", "preallocate", "priority"];
/// The asynchronous ones.
const ASYNCHRONOUS: [&str; 3] = ["posix-aio", "linux-aio", "io-uring"];
/// A rule that is checked on fewer trees says nothing.
const FEWEST_HELD_OUT: usize = 2;
/// A copy that takes no more than this share longer than the quickest was a good choice.
const GOOD: f64 = 1.1;

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
        copies::with(&self.cases, &[("engine", engine), ("variant", variant)])
    }

    /// All plain copiers.
    fn plain(&self) -> Vec<&'c Case> {
        std::iter::once("cp").chain(ENGINES).filter_map(|engine| self.get(engine, "plain")).collect()
    }

    /// An engine against cp.
    fn ratio(&self, engine: &str) -> Option<Ratio> {
        copies::ratio(self.get(engine, "plain"), self.get("cp", "plain"), RETURNED)
    }
}

fn megabytes(size: u64) -> String {
    match size {
        size if size > 0 && size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        size if size > 0 && size.is_multiple_of(1_000_000) => format!("{} MB", size / 1_000_000),
        size => words::bytes(size),
    }
}

/// Which of two ratios is less, for `min_by` and `max_by`.
fn order(a: &Ratio, b: &Ratio) -> Ordering {
    a.value.total_cmp(&b.value)
}

pub fn view(results: &Results, section: &Section) -> View {
    let mut view = begun(
        section,
        "When does a copier with many requests in flight beat cp on a tree, what helps it, and can a copier predict it?",
    );
    let trees = trees(section);
    view.summary.extend(engines_in_short(&trees));
    view.summary.extend(heuristic(&trees));
    view.summary.extend(rule(&trees));
    view.summary.push(copies::measured(results, section));
    view.charts.extend(largest(&trees));
    view.charts.extend(std::iter::once("cp").chain(ENGINES).filter_map(|engine| heat(&trees, engine)));
    view.tables.extend(choices(&trees));
    view.tables.extend(variants(&trees));
    view.tables.extend(deviations(&trees));
    copies::fill(&mut view, section);
    let device = results.environment.places.get(&section.place).and_then(|place| place.device.as_ref());
    let heads = device.is_some_and(|device| device.rotational == Some(true));
    view.published = Some(published(&trees, heads));
    view
}

/// The plain copiers at the largest of the trees where most of them were measured.
fn largest(trees: &[Tree]) -> Option<Chart> {
    let tree = trees.iter().max_by_key(|tree| tree.plain().len())?;
    copies::bars(&[(&tree.name(), tree.plain())])
}

fn trees<'s>(section: &'s Section) -> Vec<Tree<'s>> {
    let tree = |(_, cases): (_, Vec<&'s Case>)| {
        let number = |name: &str| cases.iter().find_map(|case| case.parameters.get(name)?.parse().ok());
        Tree { size: number("size").unwrap_or_default(), files: number("files").unwrap_or_default(), cases }
    };
    let mut trees: Vec<Tree> = section.groups().into_iter().map(tree).collect();
    trees.sort_by_key(|tree| (tree.size, tree.files));
    trees
}

fn engines_in_short(trees: &[Tree]) -> Vec<String> {
    let mut words: Vec<String> = overall(trees).into_iter().collect();
    for engine in ENGINES {
        let ratios: Vec<(String, Ratio)> =
            trees.iter().filter_map(|tree| Some((tree.name(), tree.ratio(engine)?))).collect();
        let Some((name, least)) = ratios.iter().min_by(|a, b| order(&a.1, &b.1)) else { continue };
        let count = |side| ratios.iter().filter(|(_, ratio)| ratio.side(1.0) == side).count();
        words.push(format!(
            "{engine}: of {}, quicker than cp in {}, slower in {}, no significant difference in {}; at its best it takes {}, \
             at {name}.",
            text::count(ratios.len(), "tree"),
            count(Some(Ordering::Less)),
            count(Some(Ordering::Greater)),
            count(None),
            text::times_as(least, "the time of cp")
        ));
    }
    words
}

/// Each engine against cp, over all trees.
fn overall(trees: &[Tree]) -> Option<String> {
    let say = |engine: &&str| {
        let ratio = pooled(trees, &[engine], "plain", true, |_| true)?;
        let verdict = match (ratio.interval, ratio.side(1.0)) {
            (None, _) => "",
            (_, Some(Ordering::Less)) => ", faster",
            (_, Some(_)) => ", slower",
            (_, None) => ", no significant difference",
        };
        Some(format!("{engine} {}{verdict}", text::ratio(&ratio)))
    };
    let engines: Vec<String> = ENGINES.iter().filter_map(say).collect();
    let any = !engines.is_empty();
    any.then(|| format!("Over all trees, times as long as cp (geometric means): {}.", engines.join("; ")))
}

/// Whether `auto` picks well, which is what the authors wished for.
fn heuristic(trees: &[Tree]) -> Option<String> {
    let against: Vec<(String, Ratio)> =
        trees.iter().filter_map(|tree| Some((tree.name(), against_best(tree)?.1))).collect();
    let good = against.iter().filter(|(_, ratio)| ratio.value <= GOOD).count();
    let (worst, ratio) = against.iter().max_by(|a, b| order(&a.1, &b.1))?;
    Some(format!(
        "The heuristic that the authors wished for: auto is within 10 % of the quickest plain copier in {good} of {}; at worst it takes {} ({worst}).",
        text::count(against.len(), "tree"),
        text::times_as(ratio, "as long")
    ))
}

/// The other half of the wish: whether to copy asynchronously, by a rule that is learnt from every second tree and checked on
/// the others. It looks at the mean size of a file alone.
fn rule(trees: &[Tree]) -> Option<String> {
    let cells: Vec<(f64, f64)> = trees
        .iter()
        .filter_map(|tree| {
            let time = |engine: &&str| copies::median(tree.get(engine, "plain")?, RETURNED);
            let quickest = ASYNCHRONOUS.iter().filter_map(time).min_by(f64::total_cmp)?;
            Some((tree.size as f64 / tree.files.max(1) as f64, quickest / time(&"cp").filter(|time| *time > 0.0)?))
        })
        .collect();
    let half = |which: usize| cells.iter().skip(which).step_by(2).copied().collect::<Vec<(f64, f64)>>();
    let (learnt, held_out) = (half(0), half(1));
    let right = |cells: &[(f64, f64)], least: f64| {
        cells.iter().filter(|(size, ratio)| (*size >= least) == (*ratio < 1.0)).count()
    };
    if held_out.len() < FEWEST_HELD_OUT {
        return None;
    }
    let limits = learnt.iter().map(|(size, _)| *size).chain([f64::INFINITY]);
    let best = limits.max_by(|a, b| right(&learnt, *a).cmp(&right(&learnt, *b)).then(a.total_cmp(b)))?;
    let said = match best {
        limit if limit.is_finite() => {
            format!("copy asynchronously from a mean file size of {} on", words::bytes(limit as u64))
        }
        _ => "never copy asynchronously".to_owned(),
    };
    Some(format!(
        "A rule learnt from every second tree says: {said}. Of the other {} it is right in {}.",
        text::count(held_out.len(), "tree"),
        right(&held_out, best)
    ))
}

/// Mean and standard deviation, as runs that differ as much as those of the largest trees did ask for it.
fn deviations(trees: &[Tree]) -> Option<Table> {
    let engines = || std::iter::once("cp").chain(ENGINES);
    let say = |(mean, deviation): (f64, f64)| {
        Cell::figure(mean, format!("{} +- {}", words::seconds(mean), words::seconds(deviation)))
    };
    let row = |tree: &Tree| {
        let cell = |engine: &str| {
            let found = tree.get(engine, "plain").and_then(|case| stats::deviation(&case.figures(RETURNED)));
            found.map_or_else(|| Cell::text("-"), say)
        };
        let known = engines().any(|engine| tree.get(engine, "plain").is_some_and(|case| case.runs.len() > 1));
        known.then(|| std::iter::once(Cell::text(tree.name())).chain(engines().map(cell)).collect())
    };
    let table = Table::new("Mean and standard deviation of the time", "tree", trees.iter().filter_map(row));
    table.and_figures(engines().map(str::to_owned)).if_any()
}

/// The quickest of all plain copiers but auto, and auto against it.
fn against_best<'c>(tree: &Tree<'c>) -> Option<(&'c Case, Ratio)> {
    let plain = ["cp", "posix-aio", "linux-aio", "io-uring"].into_iter().filter_map(|engine| tree.get(engine, "plain"));
    let time = |case: &Case| copies::median(case, RETURNED).unwrap_or(f64::INFINITY);
    let best = plain.min_by(|a, b| time(a).total_cmp(&time(b)))?;
    Some((best, copies::ratio(tree.get("auto", "plain"), Some(best), RETURNED)?))
}

/// Throughput by size and number of files, against that of cp.
fn heat(trees: &[Tree], engine: &str) -> Option<Chart> {
    let mut sizes: Vec<u64> = trees.iter().map(|tree| tree.size).collect();
    let mut files: Vec<u64> = trees.iter().map(|tree| tree.files).collect();
    for list in [&mut sizes, &mut files] {
        list.sort_unstable();
        list.dedup();
    }
    let value = |engine: &str, size: u64, files: u64| {
        let tree = trees.iter().find(|tree| tree.size == size && tree.files == files)?;
        copies::throughput(tree.get(engine, "plain")?)
    };
    let of = |engine: &str| -> Values {
        sizes.iter().map(|size| files.iter().map(|count| value(engine, *size, *count)).collect()).collect()
    };
    let grid = Grid {
        unit: "MiB/s".to_owned(),
        values: of(engine),
        rows: ("tree size".to_owned(), sizes.iter().copied().map(megabytes).collect()),
        columns: ("files".to_owned(), files.iter().map(u64::to_string).collect()),
    };
    let against = (engine != "cp").then(|| ("cp".to_owned(), of("cp")));
    let measured = grid.values.iter().flatten().any(Option::is_some);
    measured.then(|| Chart::heat(format!("Throughput of {engine}"), grid, against))
}

fn choices(trees: &[Tree]) -> Option<Table> {
    let row = |tree: &Tree| {
        let (best, ratio) = against_best(tree)?;
        let time = copies::median(best, RETURNED)?;
        let verdict = if ratio.value <= GOOD { "a good choice" } else { "not the best choice" };
        Some(vec![
            Cell::text(tree.name()),
            Cell::text(&best.competitor),
            Cell::figure(time, words::seconds(time)),
            Cell::ratio(Some(ratio)),
            Cell::text(verdict),
        ])
    };
    let heads = "tree|fastest plain copier|>its time|>auto, ratio to it|verdict on auto";
    Table::new("Does auto pick well?", heads, trees.iter().filter_map(row)).if_any()
}

/// The geometric mean of a variant against the plain copier, or against cp, over all trees for which `wanted` holds.
fn pooled(
    trees: &[Tree],
    engines: &[&str],
    variant: &str,
    of_cp: bool,
    wanted: impl Fn(&Tree) -> bool,
) -> Option<Ratio> {
    let base = |engine| if of_cp { "cp" } else { engine };
    let pairs = trees.iter().filter(|tree| wanted(tree)).flat_map(|tree| {
        engines.iter().map(move |engine| (tree.get(engine, variant), tree.get(base(engine), "plain")))
    });
    copies::pooled(pairs, RETURNED)
}

fn variants(trees: &[Tree]) -> Option<Table> {
    let row = |engine: &&str| {
        let ratios = VARIANTS.map(|variant| pooled(trees, &[engine], variant, false, |_| true));
        let row = || std::iter::once(Cell::text(*engine)).chain(ratios.map(Cell::ratio)).collect();
        ratios.iter().any(Option::is_some).then(row)
    };
    let rows = ["cp"].iter().chain(&ENGINES).filter_map(row);
    let table = Table::new("What additions do to the time", "engine", rows)
        .and_figures(VARIANTS.map(|variant| format!("with {variant}")));
    table.noted("Geometric mean over all trees; under 1 it helps.").if_any()
}

fn published(trees: &[Tree], heads: bool) -> Published {
    let sizes = || trees.iter().map(|tree| tree.size);
    let (smallest, largest) = (sizes().min().unwrap_or_default(), sizes().max().unwrap_or_default());
    let both = ["posix-aio", "linux-aio"];
    let (all, small) = (|_: &Tree| true, |tree: &Tree| tree.size == smallest);
    let at_smallest = both.map(|engine| pooled(trees, &[engine], "plain", true, small));
    let preallocated =
        ENGINES.map(|engine| pooled(trees, &[engine], "preallocate", false, |tree: &Tree| tree.size == largest));
    let priority = both.map(|engine| pooled(trees, &[engine], "priority", false, all)).into_iter().flatten();
    let priority = priority.max_by(|a, b| a.value.ln().abs().total_cmp(&b.value.ln().abs()));
    let (usual, both_beat) = both_beat(trees);
    let [posix, linux] = [&both[..1], &both[1..]];
    let published = Source::of("async-tree");
    let claim = |(number, said): (usize, &Said)| match number {
        0 => said.judged(&megabytes(smallest), at_smallest.into_iter().flatten().min_by(order)),
        1 => said.judged(&usual, both_beat),
        2 => readahead_fastest(trees, said),
        3 => readahead_helps_posix_most(trees, said),
        4 => said.judged(&megabytes(largest), preallocated.into_iter().flatten().min_by(order)),
        5 => said.judged("", pooled(trees, &both, "plain", true, all)),
        6 => said.judged("", pooled(trees, posix, "readahead", true, all)),
        7 => said.judged("", pooled(trees, linux, "readahead", false, all)),
        8 => said.judged(&megabytes(smallest), pooled(trees, linux, "readahead", true, small)),
        9 => said.judged(&megabytes(smallest), pooled(trees, &both, "preallocate", false, small)),
        // Of a device without heads it says nothing.
        10 => said.judged("", pooled(trees, posix, "plain", true, all).filter(|_| heads)),
        _ => said.judged("", priority),
    };
    let claims = published.claims.iter().enumerate().map(claim).collect();
    published.with(Table::default(), claims)
}

/// The largest tree of the usual size, and the slower of the two published copiers against cp, if both were measured there.
fn both_beat(trees: &[Tree]) -> (String, Option<Ratio>) {
    let usual = trees.iter().filter(|tree| tree.size <= 1_100_000_000);
    let tree = usual.max_by_key(|tree| (tree.size, Reverse(tree.files)));
    let ratios = ["posix-aio", "linux-aio"].map(|engine| tree.and_then(|tree| tree.ratio(engine)));
    let slower = ratios.iter().flatten().copied().max_by(order).filter(|_| ratios.iter().all(Option::is_some));
    (tree.map(Tree::name).unwrap_or_default(), slower)
}

fn readahead_fastest(trees: &[Tree], said: &Said) -> Claim {
    let found = trees.last().and_then(|tree| {
        let linux = tree.get("linux-aio", "readahead")?;
        let others = [("cp", "plain"), ("posix-aio", "plain"), ("posix-aio", "readahead"), ("linux-aio", "plain")];
        let against = |(engine, variant)| {
            let other = tree.get(engine, variant)?;
            Some((&other.competitor, copies::ratio(Some(linux), Some(other), RETURNED)?))
        };
        let ratios: Vec<_> = others.into_iter().filter_map(against).collect();
        let (name, worst) = ratios.iter().max_by(|a, b| order(&a.1, &b.1))?;
        let here = format!("At {}, it takes {}, against {name}.", tree.name(), text::times_as(worst, "as long"));
        let verdicts: Vec<Option<bool>> = ratios.iter().map(|(_, ratio)| said.agrees(Some(*ratio))).collect();
        let agrees = match verdicts.contains(&Some(false)) {
            true => Some(false),
            false => verdicts.iter().all(|verdict| *verdict == Some(true)).then_some(true),
        };
        Some((here, agrees))
    });
    let (here, agrees) = found.unzip();
    said.decided(here, agrees.flatten())
}

fn readahead_helps_posix_most(trees: &[Tree], said: &Said) -> Claim {
    let of = |engine| pooled(trees, &[engine], "readahead", false, |_| true);
    let (Some(posix), Some(linux)) = (of("posix-aio"), of("linux-aio")) else { return said.decided(None, None) };
    let agrees = match (posix.interval, linux.interval) {
        (Some((_, most)), Some((least, _))) if most < least => Some(true),
        (Some((least, _)), Some((_, most))) if most < least => Some(false),
        _ => None,
    };
    let [posix, linux] = [posix, linux].map(|ratio| text::times_as(&ratio, "its plain time"));
    said.decided(Some(format!("With it, POSIX AIO takes {posix}, and Linux AIO {linux}.")), agrees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::test_support::{case, results, section, timed};
    use crate::view::Kind;

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
        assert_eq!(
            verdicts(&view),
            [
                Some(true),
                Some(true),
                Some(false),
                Some(true),
                None,
                Some(true),
                Some(true),
                Some(true),
                None,
                None,
                None,
                Some(true)
            ]
        );
    }

    #[test]
    fn the_rule_is_learnt_from_one_half_and_checked_on_the_other() {
        // Files of 1 MB and more gain, but for one tree that was not learnt from.
        let set: Vec<(u64, u64, &str, &str, f64)> =
            [(10, 100, 1.5), (20, 100, 1.4), (100, 100, 0.8), (200, 100, 0.7), (400, 100, 0.6), (500, 100, 1.2)]
                .into_iter()
                .flat_map(|(size, files, ratio)| {
                    [(size, files, "cp", "plain", 1.0), (size, files, "linux-aio", "plain", ratio)]
                })
                .collect();
        let view = measured(&set);
        let rule = view.summary.iter().find(|words| words.contains("rule learnt")).unwrap();
        assert!(
            rule.contains("from a mean file size of 977 KiB on") && rule.contains("the other 3 trees it is right in 2"),
            "{rule}"
        );
    }

    #[test]
    fn the_first_sentence_says_which_copiers_beat_cp() {
        let set = [("cp", 2.0), ("posix-aio", 3.0), ("linux-aio", 1.0), ("io-uring", 2.0)];
        let view = measured(&set.map(|(engine, seconds)| (100, 32, engine, "plain", seconds)));
        assert_eq!(
            view.summary[0],
            "Over all trees, times as long as cp (geometric means): posix-aio 1.50 (1.50 to 1.50), slower; \
             linux-aio 0.50 (0.50 to 0.50), faster; io-uring 1.00 (1.00 to 1.00), no significant difference."
        );
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(verdicts(&measured(&[])), [None; 12]);
    }

    #[test]
    fn a_field_holds_the_throughput_beside_that_of_cp() {
        let view =
            measured(&[(100, 32, "cp", "plain", 2.0), (100, 32, "auto", "plain", 1.0), (500, 64, "cp", "plain", 2.0)]);
        let Some(Kind::Heat { grid: Grid { unit, rows, columns, values }, against: Some((base, of_cp)) }) =
            view.charts.last().map(|chart| &chart.kind)
        else {
            panic!("{:?}", view.charts)
        };
        assert_eq!(
            (rows.1.as_slice(), columns.1.as_slice()),
            (&["100 MB", "500 MB"].map(str::to_owned)[..], &["32", "64"].map(str::to_owned)[..])
        );
        let rate = |seconds: f64| Some(100e6 / seconds / f64::from(1 << 20));
        assert_eq!((unit.as_str(), base.as_str()), ("MiB/s", "cp"));
        assert_eq!(values, &[vec![rate(1.0), None], vec![None, None]]);
        assert_eq!(of_cp[0], [rate(2.0), None]);
    }
}
