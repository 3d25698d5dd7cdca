//! The times of a few programs in each workload, side by side, as a drawing for README. Pure.

use std::fmt::Write;

use super::record::{Row, Table};

/// Who is in it, in this order. haul is what it chooses itself.
const PROGRAMS: [&str; 5] = ["haul", "cp", "rsync", "xcp", "cpz"];

const WIDTH: f64 = 760.0;
/// Where bars begin, and where one ends that takes as long as the longest of its workload.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 620.0;
const BAR: f64 = 13.0;
const STEP: f64 = 17.0;
const TITLE: f64 = 24.0;
const GAP: f64 = 14.0;

/// SVG 1.1 with styles for light and for dark pages. Each workload has a scale of its own; the shortest bar is the best.
pub fn draw(tables: &[Table]) -> String {
    let mut body = String::new();
    let mut line = |text: String| writeln!(body, "{text}").unwrap_or_default(); // writing to a String cannot fail
    let mut top = 34.0;
    line(format!(
        "<text x=\"10\" y=\"20\" class=\"dim\">{}</text>",
        escaped("Seconds until the program returns, median; shorter is better")
    ));
    for table in tables {
        let timed: Vec<(&str, Option<f64>)> = PROGRAMS
            .iter()
            .filter_map(|program| Some((*program, row(table, program)?)))
            .map(|(program, row)| (program, row.returned().filter(|_| row.ranked()).map(|time| time.median)))
            .collect();
        let longest = timed.iter().filter_map(|(_, time)| *time).fold(f64::MIN_POSITIVE, f64::max);
        line(format!("<text x=\"10\" y=\"{:.0}\" class=\"title\">{}</text>", top + 15.0, escaped(&table.title)));
        top += TITLE;
        for (program, time) in timed {
            let middle = top + BAR - 2.0;
            line(format!("<text x=\"{:.0}\" y=\"{middle:.0}\" text-anchor=\"end\">{program}</text>", LEFT - 8.0));
            let (length, text) = match time {
                Some(time) => ((RIGHT - LEFT) * time / longest, seconds(time)),
                None => (0.0, "did not keep everything".to_owned()),
            };
            let class = if program == "haul" { "ours" } else { "theirs" };
            if length > 0.0 {
                line(format!(
                    "<rect class=\"{class}\" x=\"{LEFT:.0}\" y=\"{top:.0}\" width=\"{length:.1}\" height=\"{BAR:.0}\"/>"
                ));
            }
            line(format!("<text x=\"{:.1}\" y=\"{middle:.0}\" class=\"dim\">{text}</text>", LEFT + length + 6.0));
            top += STEP;
        }
        top += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {top:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<style>text{{fill:#1f2328}}.title{{font-weight:bold}}.dim{{fill:#59636e}}.ours{{fill:#0072b2}}\
         .theirs{{fill:#b6bdc5}}@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.dim{{fill:#9198a1}}\
         .ours{{fill:#56b4e9}}.theirs{{fill:#59636e}}}}</style>\n{body}</svg>\n"
    )
}

/// The row of a program without further options.
fn row<'a>(table: &'a Table, program: &str) -> Option<&'a Row> {
    table.rows.iter().find(|row| match program {
        "haul" => row.haul,
        "cp" => row.base,
        _ => row.name.split(' ').next() == Some(program),
    })
}

fn seconds(time: f64) -> String {
    match time {
        10.0.. => format!("{time:.0} s"),
        1.0.. => format!("{time:.1} s"),
        _ => format!("{time:.2} s"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{row, table};
    use super::super::target::Target;
    use super::*;

    #[test]
    fn bars_are_as_long_as_the_times_and_wrong_copies_have_none() {
        let ours = Row { haul: true, ..row("haul -a", &[(1.0, 2.0)]) };
        let theirs = Row { base: true, ..row("cp -a", &[(4.0, 5.0)]) };
        let wrong = Row { wrong: Some("differs".into()), ..row("xcp", &[(0.1, 1.0)]) };
        let others = row("other", &[(9.0, 9.0)]);
        let svg = draw(&[table("tree", Target::default(), vec![theirs, ours, wrong, others])]);
        assert!(svg.contains("class=\"ours\" x=\"70\" y=\"58\" width=\"137.5\""), "{svg}");
        assert!(svg.contains("class=\"theirs\" x=\"70\" y=\"75\" width=\"550.0\""), "{svg}");
        assert!(svg.contains("did not keep everything") && !svg.contains("other"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 2);
    }

    #[test]
    fn the_chart_of_the_readme_is_that_of_what_was_measured() {
        let read = |name: &str| std::fs::read_to_string(crate::shell::root().join("docs").join(name)).unwrap();
        let (_, tables) = super::super::record::read(&read("peers.json")).unwrap();
        assert_eq!(draw(&tables), read("peers.svg"));
    }
}
