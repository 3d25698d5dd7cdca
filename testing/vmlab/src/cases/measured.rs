//! haul-lab in the guest. Its results go to the host, which shows and compares them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::nfs;
use crate::lab::{Found, Lab, Outcome};
use crate::tool;

/// `mapped-write` on a disk that is the same for every kernel.
pub fn mapped_write(lab: &mut Lab) -> Result<(), String> {
    let at = lab.mounted("ext4", "measured", 768)?;
    let time = if tool::word("haul.long")?.is_some() { 75 } else { 6 };
    let words = format!("mapped-write --time={time}s --rounds=20 --files=8 --space=256M");
    let Some(results) = measure(lab, &words, &at) else { return Ok(()) };
    lab.check("every part of it was measured", || {
        let details = results["sections"][0]["details"].as_array().ok_or("it has no details")?;
        let body = |name: &str| details.iter().find(|detail| detail["name"] == name).map(|detail| &detail["body"]);
        for name in ["grid-mapped-write", "under-write-back"] {
            body(name).ok_or_else(|| format!("{name} was not measured"))?;
        }
        for name in ["msync-latency", "written-latency", "stall"] {
            let count = body(name).and_then(|body| body["count"].as_u64());
            count.filter(|count| *count > 0).ok_or_else(|| format!("{name}: nothing was timed"))?;
        }
        let verdict = body("verdict").and_then(|body| body["name"].as_str()).ok_or("it has no verdict")?;
        Ok(Found { found: verdict.to_owned(), ..Found::default() })
    });
    Ok(())
}

/// `in-kernel` on NFS, whose server can share extents.
pub fn in_kernel_on_xfs(lab: &mut Lab) -> Result<(), String> {
    in_kernel(lab, "xfs")
}

/// On one that cannot.
pub fn in_kernel_on_ext4(lab: &mut Lab) -> Result<(), String> {
    in_kernel(lab, "ext4")
}

fn in_kernel(lab: &mut Lab, kind: &str) -> Result<(), String> {
    let at = nfs::served(lab, kind)?;
    let (mib, runs) = if tool::word("haul.long")?.is_some() { (16, 3) } else { (4, 1) };
    let words = format!("in-kernel --cold --sizes={mib}M --runs={runs}");
    let Some(results) = measure(lab, &words, at) else { return Ok(()) };
    let size = f64::from(mib << 20);
    let over_the_wire = |name: &str| -> Outcome {
        let run = last_run(&results, name)?;
        let asked = (run["COPY"] + run["CLONE"] == 0.0) && run["READ"] > 0.0 && run["WRITE"] > 0.0;
        outcome_of(&run, asked && run["sent"] > size && run["received"] > size)
    };
    let with_the_server = |name: &str, operation: &str| -> Outcome {
        let run = last_run(&results, name)?;
        let asked = run[operation] > 0.0 && run["READ"] + run["WRITE"] == 0.0;
        outcome_of(&run, asked && run["sent"] + run["received"] < size / 100.0)
    };
    lab.check("read and write: twice over the wire", || over_the_wire("read-write"));
    lab.check("splice: twice over the wire", || over_the_wire("splice"));
    lab.check("copy_file_range: COPY, bytes stay there", || with_the_server("copy-range", "COPY"));
    lab.check("clone: CLONE, where the server can", || match kind {
        "xfs" => with_the_server("clone", "CLONE"),
        _ => match last_run(&results, "clone") {
            Err(why) if why.contains("refused") => Ok(Found { found: why, ..Found::default() }),
            other => Err(format!("it was not refused: {other:?}").into()),
        },
    });
    Ok(())
}

/// What a competitor's last run asked the server for.
fn last_run(results: &Value, name: &str) -> Result<BTreeMap<String, f64>, String> {
    let cases = results["sections"][0]["cases"].as_array().ok_or("it has no cases")?;
    let case = cases.iter().find(|case| case["competitor"] == name).ok_or_else(|| format!("{name} did not run"))?;
    let run = case["runs"].as_array().and_then(|runs| runs.last());
    let counters = run.and_then(|run| run["told"].as_object()).ok_or_else(|| format!("{name}: {}", case["outcome"]))?;
    let counted = |(name, value): (&String, &Value)| Some((name.strip_prefix("nfs.")?.to_owned(), value.as_f64()?));
    let counted: BTreeMap<String, f64> = counters.iter().filter_map(counted).collect();
    if counted.is_empty() { Err(format!("{name}: nothing was counted")) } else { Ok(counted) }
}

fn outcome_of(run: &BTreeMap<String, f64>, right: bool) -> Outcome {
    let words: Vec<String> = run.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let words = words.join(", ");
    if right { Ok(Found { found: words, ..Found::default() }) } else { Err(words.into()) }
}

/// Runs haul-lab on a directory, and sends its results to the host; `None` if that did not go well, which is a row.
fn measure(lab: &mut Lab, words: &str, at: &Path) -> Option<Value> {
    // In memory, so that nothing of it goes to the storage that is measured.
    let out = Path::new("/run/haul-lab");
    let mut results = None;
    lab.check(&format!("haul-lab {}", words.split(" --r").next().unwrap_or_default()), || {
        tool::run(&format!("haul-lab {words} --output={} {}", out.display(), at.display()))?;
        let text = fs::read_to_string(out.join("results.json")).map_err(|error| format!("results.json: {error}"))?;
        fs::remove_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
        results = Some(serde_json::from_str::<Value>(&text).map_err(|error| format!("results.json: {error}"))?);
        Ok(Found { found: format!("{} bytes of results", text.len()), ..Found::default() })
    });
    lab.send(&results.as_ref()?.to_string());
    results
}
