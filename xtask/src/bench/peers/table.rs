//! Tables in Markdown.

use haul_measure::stats::Spread;

use super::super::report::{range, seconds};
use super::install::{Missing, Peer};
use super::judge::{self, Judgement, Verdict};
use super::record::{Row, Table};

/// One workload: a line for each program.
pub fn workload(table: &Table) -> String {
    let mut text = format!("### {}: {}\n\n{}\n\n", table.name, table.title, table.place);
    if !table.about.is_empty() {
        text += &format!("Measured elsewhere, or with other programs: {}\n\n", table.about.join(" "));
    }
    text += "| program | n | returned s | durable s | CPU s (user + system) | whole machine CPU s | peak MiB (without \
             mapped files) | cp / x returned | durable | verified |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|\n";
    let base = table.rows.iter().find(|row| row.base);
    for row in &table.rows {
        text += &line(row, base);
    }
    if let Some(ratio) = device_ratio(table) {
        text += &format!("\nhaul is durable after {ratio:.2} x the time of the device limit.\n");
    }
    for judgement in judge::judge(table) {
        text += &format!("\nTarget {}: {}.\n", judgement.text, judgement.verdict.word());
    }
    text
}

fn line(row: &Row, base: Option<&Row>) -> String {
    let program = format!("{} ({})", row.name, row.version);
    let (Some(returned), Some(durable)) = (row.returned(), row.durable()) else {
        let why = match (&row.wrong, &row.failed) {
            (Some(wrong), _) => format!("**WRONG**: {wrong}"),
            (None, Some(failed)) => format!("failed: {failed}"),
            (None, None) => "not run".into(),
        };
        return format!("| {program} | {} | | | | | | | | {} |\n", row.samples.len(), cell(&why));
    };
    let median = |figure: Option<Spread>| figure.map_or_else(String::new, |spread| seconds(spread.median));
    let cpu = format!(
        "{} ({} + {})",
        median(row.cpu()),
        median(row.spread(|sample| sample.user)),
        median(row.spread(|sample| sample.system))
    );
    let most = |figure: fn(&super::record::Sample) -> u64| row.samples.iter().map(figure).max().unwrap_or(0);
    let memory =
        format!("{} ({})", most(|sample| sample.rss_kib).div_ceil(1024), most(|sample| sample.own_kib).div_ceil(1024));
    let ratio = |own: Spread, other: Option<Spread>| match other {
        Some(other) if !row.limit => format!("{:.2}", other.median / own.median),
        _ => String::new(),
    };
    format!(
        "| {program} | {} | {} | {} | {cpu} | {} | {memory} | {} | {} | {} |\n",
        row.samples.len(),
        range(returned),
        range(durable),
        median(row.spread(|sample| sample.machine)),
        ratio(returned, base.and_then(Row::returned)),
        ratio(durable, base.and_then(Row::durable)),
        cell(&verified(row)),
    )
}

/// What was found when the copies were compared, and what else must be known of the row.
fn verified(row: &Row) -> String {
    let mut words = Vec::new();
    if row.limit {
        words.push("copies nothing".to_owned());
    } else if row.lost.is_empty() {
        words.push("yes".to_owned());
    } else {
        let lost: Vec<String> = row.lost.iter().map(|(what, count)| format!("{what} ({count})")).collect();
        words.push(format!("contents; does not keep {}", lost.join(", ")));
    }
    let disturbed = row.samples.iter().filter(|sample| sample.disturbed).count();
    if disturbed > 0 {
        words.push(format!("{disturbed} disturbed"));
    }
    if row.slow {
        words.push("too slow to repeat".into());
    }
    if let Some(failed) = &row.failed {
        words.push(format!("failed later: {failed}"));
    }
    if let Some(kib) = row.samples.iter().filter_map(|sample| sample.allocated_kib).max().filter(|kib| *kib > 1024) {
        words.push(format!("{} MiB allocated", kib / 1024));
    }
    words.join("; ")
}

/// Text that cannot end a cell or a line.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// haul's durable time against the device's.
fn device_ratio(table: &Table) -> Option<f64> {
    let (haul, _) = judge::pair(table)?;
    let limit = table.rows.iter().find(|row| row.limit)?;
    Some(haul.durable()?.median / limit.durable()?.median)
}

/// Cells of a group side by side: one line for each workload, one column for each program.
pub fn group(name: &str, tables: &[&Table]) -> String {
    let mut programs: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        if !row.base && !programs.contains(&row.name.as_str()) {
            programs.push(&row.name);
        }
    }
    let mut text =
        format!("### {name}: cp's time / the program's time, returned and durable\n\n| workload | n | cp s |");
    text += &programs.iter().map(|name| format!(" {name} |")).collect::<String>();
    text += &format!("\n|---|---|---|{}\n", "---|".repeat(programs.len()));
    for table in tables {
        let base = table.rows.iter().find(|row| row.base);
        let (returned, durable) = (base.and_then(Row::returned), base.and_then(Row::durable));
        let time = returned.map_or_else(|| "?".into(), range);
        let runs = base.map_or(0, |row| row.samples.len());
        text += &format!("| {} | {runs} | {time} |", table.title);
        for name in &programs {
            let row = table.rows.iter().find(|row| row.name == *name);
            text += &match row.map(|row| (row, row.returned(), row.durable())) {
                Some((_, Some(own), Some(own_durable))) => {
                    let ratio =
                        |own: Spread, base: Option<Spread>| base.map_or(f64::NAN, |base| base.median / own.median);
                    format!(" {:.2}, {:.2} |", ratio(own, returned), ratio(own_durable, durable))
                }
                Some((row, ..)) if row.wrong.is_some() => " **WRONG** |".into(),
                _ => " failed |".into(),
            };
        }
        text += "\n";
    }
    text
}

/// All workloads: haul against cp, the best peer, and the targets.
pub fn summary(tables: &[Table]) -> String {
    let mut text = "### Summary\n\n| workload | cp / haul returned | durable | best peer that does all | cp / peer \
                    returned | haul MiB (without mapped files) | target | |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for table in tables.iter().filter(|table| table.group.is_empty()) {
        text += &format!("| {}: {} | {} |\n", table.name, cell(&table.title), summary_cells(table));
    }
    for name in groups(tables) {
        let cells: Vec<&Table> = tables.iter().filter(|table| table.group == name).collect();
        text += &format!("| {name}: {} cells, the worst of each | {} |\n", cells.len(), worst_cells(&cells));
    }
    text
}

/// Which rows of a summary are from other machines or programs.
pub fn elsewhere(tables: &[Table]) -> String {
    let names: Vec<&str> =
        tables.iter().filter(|table| !table.about.is_empty()).map(|table| table.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("\n**Not comparable with the others**, measured elsewhere or with other programs: {}.\n", names.join(", "))
}

/// Names of groups, in the order in which they come.
pub fn groups(tables: &[Table]) -> Vec<&str> {
    let mut names: Vec<&str> =
        tables.iter().map(|table| table.group.as_str()).filter(|name| !name.is_empty()).collect();
    names.dedup();
    names
}

fn worst_cells(cells: &[&Table]) -> String {
    let worst = |figure: fn(&Row) -> Option<Spread>| {
        let ratio = |table: &&Table| {
            let (haul, cp) = judge::pair(table)?;
            Some((figure(cp)?.median / figure(haul)?.median, table.name.clone()))
        };
        let worst = cells.iter().filter_map(ratio).min_by(|one, other| one.0.total_cmp(&other.0));
        worst.map_or_else(String::new, |(ratio, name)| format!("{ratio:.2} ({name})"))
    };
    let missed = |table: &&&Table| {
        let judged = judge::judge(table);
        judged.is_empty() || judged.iter().any(|judgement| judgement.verdict == Verdict::Missed)
    };
    let missed = cells.iter().filter(missed).count();
    let own = cells.iter().filter_map(|table| judge::pair(table)).flat_map(|(haul, _)| &haul.samples);
    let own = own.map(|sample| sample.own_kib).max().unwrap_or(0).div_ceil(1024);
    let verdict = if missed == 0 { "met".to_owned() } else { format!("**missed** in {missed} of {}", cells.len()) };
    let target = "never below cp";
    [worst(Row::returned), worst(Row::durable), String::new(), String::new(), own.to_string(), target.into(), verdict]
        .join(" | ")
}

fn summary_cells(table: &Table) -> String {
    let Some((haul, cp)) = judge::pair(table) else {
        return "no right copies by both | | | | | | **missed**".into();
    };
    let ratio = |one: Option<Spread>, other: Option<Spread>| match (one, other) {
        (Some(one), Some(other)) => format!("{:.2}", one.median / other.median),
        _ => String::new(),
    };
    let best = judge::best_peer(table);
    let judged = judge::judge(table);
    let conditions: Vec<&str> = judged.iter().map(|judgement| judgement.text.as_str()).collect();
    let own = haul.samples.iter().map(|sample| sample.own_kib).max().unwrap_or(0).div_ceil(1024);
    [
        ratio(cp.returned(), haul.returned()),
        ratio(cp.durable(), haul.durable()),
        best.map_or_else(String::new, |row| row.name.clone()),
        ratio(cp.returned(), best.and_then(Row::returned)),
        own.to_string(),
        cell(&conditions.join("; ")),
        verdicts(&judged),
    ]
    .join(" | ")
}

/// One word if all conditions stand alike, else one for each.
fn verdicts(judged: &[Judgement]) -> String {
    let mut words: Vec<&str> = judged.iter().map(|judgement| judgement.verdict.word()).collect();
    if words.iter().all(|word| Some(word) == words.first()) {
        words.truncate(1);
    }
    words.join("; ")
}

/// The programs, and those that there are not.
pub fn programs(peers: &[Peer], missing: &[Missing]) -> Vec<String> {
    let there: Vec<String> = peers.iter().map(|peer| format!("{} {}", peer.name, peer.version)).collect();
    let mut lines = vec![format!("Programs: {}.", there.join(", "))];
    lines.extend(missing.iter().map(|missing| format!("**Missing**: {}: {}.", missing.name, cell(&missing.why))));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{row, table};
    use super::super::target::Target;
    use super::*;

    #[test]
    fn a_line_has_medians_ranges_and_ratios() {
        let target = Target { returned: Some(1.5), ..Target::default() };
        let rows = vec![row("cp", &[(1.0, 2.0), (3.0, 4.0), (2.0, 3.0)]), row("haul", &[(1.0, 2.0)])];
        let text = workload(&table("file", target, rows));
        let cp = "| cp (1.2) | 3 | 2.00 (1.00-3.00) | 3.00 (2.00-4.00) | 0.75 (0.25 + 0.50) | 1.00 | 2 (1) | 1.00 | 1.00 | \
                  yes |";
        assert!(text.contains(cp), "{text}");
        assert!(text.contains("| 2.00 | 1.50 | yes |"), "{text}");
        assert!(text.contains("Target returned 1.50 x: 2.00: met."), "{text}");
    }

    #[test]
    fn a_wrong_copy_has_no_times_and_no_rank() {
        let mut wrong = row("xcp", &[(0.1, 0.1)]);
        wrong.wrong = Some("1 of 2 entries: a|b differs".into());
        let mut less = row("cpz", &[(0.5, 0.5)]);
        less.lost.insert("xattr".into(), 7);
        let rows = vec![row("cp", &[(1.0, 1.0)]), row("haul", &[(1.0, 1.0)]), wrong, less];
        let all = table("file", Target::default(), rows);
        let text = workload(&all);
        assert!(text.contains("| xcp (1.2) | 1 | | | | | | | | **WRONG**: 1 of 2 entries: a\\|b differs |"), "{text}");
        assert!(text.contains("contents; does not keep xattr (7)"), "{text}");
        assert!(summary(&[all]).contains("| 1.00 | 1.00 | cp | 1.00 |"));
    }

    #[test]
    fn results_of_another_machine_say_so_in_their_table_and_below_the_summary() {
        let here = table("file", Target::default(), vec![]);
        let there = Table { about: vec!["an old machine.".into()], name: "tree".into(), ..here.clone() };
        assert!(workload(&there).contains("elsewhere, or with other programs: an old machine."));
        assert!(!workload(&here).contains("elsewhere"));
        assert!(elsewhere(&[here.clone(), there]).contains("other programs: tree."));
        assert_eq!(elsewhere(&[here]), "");
    }

    #[test]
    fn the_limit_of_the_device_is_no_ratio_to_cp() {
        let rows = vec![row("cp", &[(1.0, 3.0)]), row("haul", &[(1.0, 2.0)]), row("limit", &[(0.5, 1.0)])];
        let text = workload(&table("file", Target::default(), rows));
        assert!(text.contains("| limit (1.2) | 1 | 0.50 (0.50-0.50) | 1.00 (1.00-1.00) |"), "{text}");
        assert!(text.contains("|  |  | copies nothing |"), "{text}");
        assert!(text.contains("2.00 x the time of the device limit"), "{text}");
    }

    #[test]
    fn cells_of_a_group_stand_side_by_side() {
        let target = Target { returned: Some(1.0), ..Target::default() };
        let one = table("m-1", target, vec![row("cp", &[(2.0, 3.0)]), row("haul", &[(1.0, 1.0)])]);
        let mut wrong = row("haul", &[(1.0, 1.0)]);
        wrong.wrong = Some("half".into());
        let two = table("m-2", Target::default(), vec![row("cp", &[(2.0, 2.0)]), wrong]);
        let mut both = [one.clone(), two.clone()];
        both.iter_mut().for_each(|table| table.group = "matrix".into());
        let line = "| matrix: 2 cells, the worst of each | 2.00 (m-1) | 3.00 (m-1) |  |  | 1 | never below cp | \
                    **missed** in 1 of 2 |";
        assert!(summary(&both).contains(line), "{}", summary(&both));
        let text = group("matrix", &[&one, &two]);
        assert!(text.contains("| title of m-1 | 1 | 2.00 (2.00-2.00) | 2.00, 3.00 |"), "{text}");
        assert!(text.contains("| title of m-2 | 1 | 2.00 (2.00-2.00) | **WRONG** |"), "{text}");
    }
}
