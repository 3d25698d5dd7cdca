//! Whether haul reached what it must.

use super::install::BEFORE;
use super::record::{Row, Table};

/// MiB of resident memory, mapped file pages aside, that no workload may need.
const MEMORY_MIB: u64 = 128;

/// Medians that are closer than this, in runs whose ranges overlap, show no difference.
const LEVEL: f64 = 0.9;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What was asked for, and what came out.
    pub text: String,
    pub verdict: Verdict,
}

/// How a condition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Met,
    /// The medians say no, but are within 10 % and the ranges of the runs overlap: no difference was shown.
    Level,
    Missed,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Level => "level",
            Verdict::Missed => "**missed**",
        }
    }
}

/// The peer that returned first among those that did the whole task, cp among them.
pub fn best_peer(table: &Table) -> Option<&Row> {
    let peers = table.rows.iter().filter(|row| row.ranked() && !row.version.is_empty() && !is_own(row));
    let time = |row: &Row| row.returned().map_or(f64::INFINITY, |spread| spread.median);
    peers.min_by(|one, other| time(one).total_cmp(&time(other)))
}

/// Whether it is of haul: as it is, with further options, or of another build.
fn is_own(row: &Row) -> bool {
    row.haul || ["haul", BEFORE].contains(&row.name.split(' ').next().unwrap_or_default())
}

/// Why a table fails the benchmark: haul's own row and that of the base must have done the whole task in every run, and no row of
/// haul may be wrong. An engine may refuse.
pub fn faults(table: &Table) -> Vec<String> {
    let why = |row: &Row| {
        let kept = if row.lost.is_empty() { "has no times" } else { "does not keep all metadata" };
        let failed = row.failed.as_ref().map(|why| format!("failed: {why}"));
        let wrong = row.wrong.as_ref().map(|why| format!("is wrong: {why}"));
        format!("{}: {} {}", table.name, row.name, wrong.or(failed).unwrap_or_else(|| kept.to_owned()))
    };
    let is_vital = |row: &&Row| row.haul || row.base;
    let is_bad = |row: &&Row| (is_own(row) && row.wrong.is_some()) || (is_vital(row) && !row.ranked());
    let mut faults: Vec<String> = table.rows.iter().filter(is_bad).map(why).collect();
    if table.rows.iter().filter(is_vital).count() < 2 {
        faults.push(format!("{}: haul and what it is compared with were not both run", table.name));
    }
    faults
}

/// haul's own row and cp's.
pub fn pair(table: &Table) -> Option<(&Row, &Row)> {
    let find = |what: fn(&Row) -> bool| table.rows.iter().find(|row| what(row) && row.ranked());
    Some((find(|row| row.haul)?, find(|row| row.base)?))
}

/// Every condition of a table's target. Empty if haul or cp has no good runs.
pub fn judge(table: &Table) -> Vec<Judgement> {
    let Some((haul, cp)) = pair(table) else { return Vec::new() };
    let target = table.target;
    let mut judged = Vec::new();
    let mut add = |text: String, verdict: Verdict| judged.push(Judgement { text, verdict });
    let (Some(own), Some(base)) = (haul.returned(), cp.returned()) else { return Vec::new() };
    if let Some(least) = target.returned {
        let ratio = base.median / own.median;
        let text = match least < 1.0 {
            true => format!("at most {:.2} x cp's time: {:.2}", 1.0 / least, 1.0 / ratio),
            false => format!("returned {least:.2} x: {ratio:.2}"),
        };
        add(text, met(ratio >= least));
    }
    if let (Some(least), Some(own), Some(base)) = (target.durable, haul.durable(), cp.durable()) {
        let ratio = base.median / own.median;
        add(format!("durable {least:.2} x: {ratio:.2}"), met(ratio >= least));
    }
    if let (Some(most), Some(own), Some(base)) = (target.cpu, haul.cpu(), cp.cpu()) {
        let share = own.median / base.median;
        add(format!("CPU at most {most:.2} x cp's: {share:.2}"), met(share <= most));
    }
    if let Some(most) = target.seconds {
        add(format!("within {most} s: {:.4}", own.median), met(own.median <= most));
    }
    if let Some((best, time)) =
        best_peer(table).filter(|_| target.not_behind).and_then(|row| Some((row, row.returned()?)))
    {
        let verdict = match own.median <= time.median {
            true => Verdict::Met,
            false if own.min <= time.max && time.median / own.median >= LEVEL => Verdict::Level,
            false => Verdict::Missed,
        };
        add(format!("not behind {}: {:.2} x", best.name, time.median / own.median), verdict);
    }
    let memory = haul.samples.iter().map(|sample| sample.own_kib).max().unwrap_or(0).div_ceil(1024);
    if memory > MEMORY_MIB {
        add(format!("memory under {MEMORY_MIB} MiB: {memory}"), Verdict::Missed);
    }
    judged
}

fn met(yes: bool) -> Verdict {
    if yes { Verdict::Met } else { Verdict::Missed }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{row, table};
    use super::super::target::Target;
    use super::*;

    fn verdicts(target: Target, rows: Vec<Row>) -> Vec<Verdict> {
        judge(&table("x", target, rows)).into_iter().map(|judgement| judgement.verdict).collect()
    }

    #[test]
    fn ratios_are_of_medians() {
        let target = Target { returned: Some(2.0), durable: Some(2.0), ..Target::default() };
        let rows = vec![row("cp", &[(4.0, 4.0), (4.0, 5.0), (9.0, 9.0)]), row("haul", &[(2.0, 2.6)])];
        assert_eq!(verdicts(target, rows), [Verdict::Met, Verdict::Missed]);
    }

    #[test]
    fn a_wrong_peer_and_one_that_keeps_less_are_no_best_peers() {
        let mut wrong = row("xcp", &[(0.1, 0.1)]);
        wrong.wrong = Some("half".into());
        let mut less = row("cpz", &[(0.2, 0.2)]);
        less.lost.insert("owner".into(), 1);
        let rows = vec![row("cp", &[(4.0, 4.0)]), row("haul", &[(1.0, 1.0)]), wrong, less, row("fcp", &[(2.0, 2.0)])];
        let judged = table("x", Target { not_behind: true, ..Target::default() }, rows);
        assert_eq!(best_peer(&judged).map(|row| row.name.as_str()), Some("fcp"));
        assert_eq!(judge(&judged)[0].verdict, Verdict::Met);
    }

    #[test]
    fn overlapping_ranges_are_level() {
        let target = Target { not_behind: true, ..Target::default() };
        let cp = row("cp", &[(9.0, 9.0)]);
        let rows = |haul: &[(f64, f64)]| vec![cp.clone(), row("haul", haul), row("cpz", &[(1.0, 1.0), (1.2, 1.2)])];
        assert_eq!(verdicts(target, rows(&[(1.1, 2.0), (1.3, 2.0)])), [Verdict::Level]);
        assert_eq!(verdicts(target, rows(&[(1.1, 2.0), (1.8, 2.0)])), [Verdict::Missed]);
        assert_eq!(verdicts(target, rows(&[(1.21, 2.0), (1.21, 2.0)])), [Verdict::Missed]);
    }

    #[test]
    fn much_memory_is_a_miss_everywhere() {
        let mut haul = row("haul", &[(1.0, 1.0)]);
        haul.samples[0].own_kib = 129 << 10;
        assert_eq!(verdicts(Target::default(), vec![row("cp", &[(1.0, 1.0)]), haul]), [Verdict::Missed]);
    }

    #[test]
    fn a_wrong_copy_by_any_haul_and_a_failure_of_its_own_choice_are_faults() {
        let good = || [row("cp", &[(1.0, 1.0)]), row("haul", &[(1.0, 1.0)]), row("xcp", &[(1.0, 1.0)])].to_vec();
        let with = |more: Row| faults(&table("x", Target::default(), [good(), vec![more]].concat()));
        for name in ["haul --engine=splice -r", "haul --durable", "before -r", "xcp"] {
            let failed = Row { failed: Some("refused".into()), ..row(name, &[]) };
            assert_eq!(with(failed), [""; 0], "{name}");
            let wrong = Row { wrong: Some("half".into()), ..row(name, &[(1.0, 1.0)]) };
            let expected = if name == "xcp" { vec![] } else { vec![format!("x: {name} is wrong: half")] };
            assert_eq!(with(wrong), expected);
        }
        for at in [0, 1] {
            let mut rows = good();
            rows[at].failed = Some("in the third run".into());
            let found = faults(&table("x", Target::default(), rows.clone()));
            assert_eq!(found, [format!("x: {} failed: in the third run", rows[at].name)]);
            rows.remove(at);
            assert_eq!(faults(&table("x", Target::default(), rows)).len(), 1);
        }
    }

    #[test]
    fn who_failed_in_a_later_run_is_not_ranked() {
        let mut rows = vec![row("cp", &[(4.0, 4.0)]), row("haul", &[(1.0, 1.0)]), row("xcp", &[(2.0, 2.0)])];
        rows[2].failed = Some("no".into());
        assert_eq!(best_peer(&table("x", Target::default(), rows.clone())).map(|row| row.name.as_str()), Some("cp"));
        rows[1].failed = Some("no".into());
        assert!(verdicts(Target { returned: Some(0.1), ..Target::default() }, rows).is_empty());
    }

    #[test]
    fn without_a_right_copy_by_haul_nothing_is_judged() {
        let mut haul = row("haul", &[(1.0, 1.0)]);
        haul.wrong = Some("differs".into());
        let target = Target { returned: Some(0.1), ..Target::default() };
        assert!(verdicts(target, vec![row("cp", &[(1.0, 1.0)]), haul]).is_empty());
    }
}
