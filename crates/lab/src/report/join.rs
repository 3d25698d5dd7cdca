//! Several results as one.

use std::collections::BTreeSet;

use haul_measure::words;

use crate::results::Results;

/// Results of several files, by their names: later files add sections, or replace those of the same name and place. What a
/// reader must know of that comes with it.
pub fn join(files: Vec<(String, Results)>) -> Result<(Results, Vec<String>), String> {
    let mut notes = Vec::new();
    let mut files = files.into_iter();
    let Some((first, mut all)) = files.next() else { return Err("missing operand: a file of results".to_owned()) };
    if all.sections.is_empty() {
        notes.push(format!("{first} has nothing that was measured."));
    }
    for (name, results) in files {
        if results.sections.is_empty() {
            notes.push(format!("{name} has nothing that was measured."));
            continue;
        }
        let differences = differences(&all, &results);
        if !differences.is_empty() {
            notes.push(format!("{name} was measured elsewhere than {first}: {}.", differences.join("; ")));
        }
        add(&mut all, results, &name, &mut notes);
    }
    match all.sections.is_empty() {
        true => Err("nothing was measured yet: the results have no sections".to_owned()),
        false => Ok((all, notes)),
    }
}

/// What is not the same of two machines, in words.
pub fn differences(a: &Results, b: &Results) -> Vec<String> {
    let (one, other) = (&a.environment, &b.environment);
    let mut found = Vec::new();
    let mut compare = |what: &str, one: String, other: String| {
        if one != other {
            found.push(format!("{what} {other} and not {one}"));
        }
    };
    compare("kernel", one.kernel.clone(), other.kernel.clone());
    compare("processor", one.processor.clone(), other.processor.clone());
    compare("processors", one.cores.to_string(), other.cores.to_string());
    let about = |memory: u64| words::bytes(memory >> 20 << 20);
    compare("memory", about(one.memory), about(other.memory));
    let machine = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
    compare("virtual machine", machine(&one.virtual_machine), machine(&other.virtual_machine));
    for (name, place) in &one.places {
        let Some(theirs) = other.places.get(name) else { continue };
        compare(&format!("filesystem of {name}"), place.filesystem.clone(), theirs.filesystem.clone());
        let device = |place: &crate::results::Place| {
            place.device.as_ref().map_or_else(|| "none".to_owned(), |device| device.name.clone())
        };
        compare(&format!("device of {name}"), device(place), device(theirs));
        compare(&format!("mount options of {name}"), place.mount_options.clone(), theirs.mount_options.clone());
    }
    found.extend(programs(a, b));
    found
}

/// What competitors said of themselves, each change once: several of one program may compete.
fn programs(a: &Results, b: &Results) -> BTreeSet<String> {
    let (one, other) = (&a.environment.competitors, &b.environment.competitors);
    let both = other.iter().filter_map(|(name, now)| Some((one.get(name)?, now)));
    // The results say of which haul-lab they are.
    let changed = both.filter(|(then, now)| then != now && !now.starts_with("haul-lab "));
    changed.map(|(then, now)| format!("{now} and not {then}")).collect()
}

fn add(all: &mut Results, results: Results, name: &str, notes: &mut Vec<String>) {
    let Results { mut sections, environment, complete, started, .. } = results;
    for (key, place) in environment.places {
        let mut free = key.clone();
        let mut number = 2;
        while all.environment.places.get(&free).is_some_and(|known| !known.is_that_of(&place)) {
            free = format!("{key} ({number})");
            number += 1;
        }
        for section in sections.iter_mut().filter(|section| section.place == key) {
            section.place.clone_from(&free);
        }
        all.environment.places.insert(free, place);
    }
    all.environment.competitors.extend(environment.competitors);
    for method in environment.methods {
        if !all.environment.methods.contains(&method) {
            all.environment.methods.push(method);
        }
    }
    for section in sections {
        let known = all.sections.iter_mut().find(|known| known.name == section.name && known.place == section.place);
        match known {
            Some(known) => {
                notes.push(format!("{} is that of {name}, in the place of an earlier one.", section.name));
                *known = section;
            }
            None => all.sections.push(section),
        }
    }
    all.complete &= complete;
    all.started = all.started.min(started);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Environment, Place, Section};

    fn results(section: &str, kernel: &str, filesystem: &str) -> Results {
        let mut environment = Environment { kernel: kernel.to_owned(), ..Environment::default() };
        let place = Place { filesystem: filesystem.to_owned(), ..Place::default() };
        environment.places.insert("target".to_owned(), place);
        let mut results = Results::new(Vec::new(), 7, environment);
        results.sections.push(Section::new(section, "target"));
        results
    }

    #[test]
    fn later_files_add_and_replace_sections() {
        let mut newer = results("in-kernel", "6.1", "ext4");
        newer.sections[0].complete = true;
        newer.sections.push(Section::new("compare", "target"));
        let files = vec![("a".to_owned(), results("in-kernel", "6.1", "ext4")), ("b".to_owned(), newer)];
        let (all, notes) = join(files).unwrap();
        let names: Vec<(&str, bool)> = all.sections.iter().map(|s| (s.name.as_str(), s.complete)).collect();
        assert_eq!(names, [("in-kernel", true), ("compare", false)]);
        assert_eq!(notes, ["in-kernel is that of b, in the place of an earlier one."]);
    }

    #[test]
    fn different_machines_and_places_are_reported_and_kept_apart() {
        let files = vec![
            ("a".to_owned(), results("in-kernel", "6.1", "ext4")),
            ("b".to_owned(), results("in-kernel", "6.12", "xfs")),
        ];
        let (all, notes) = join(files).unwrap();
        assert_eq!(all.sections.iter().map(|s| s.place.as_str()).collect::<Vec<_>>(), ["target", "target (2)"]);
        let note = "b was measured elsewhere than a: kernel 6.12 and not 6.1; filesystem of target xfs and not ext4.";
        assert_eq!(notes, [note]);
    }

    #[test]
    fn results_without_sections_are_nothing_to_show() {
        let empty = Results::new(Vec::new(), 0, Environment::default());
        let message = join(vec![("a".to_owned(), empty)]).unwrap_err();
        assert_eq!(message, "nothing was measured yet: the results have no sections");
    }
}
