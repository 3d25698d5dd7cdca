use super::*;

/// Lets it search on a curve; returns the levels that it worked at.
fn levels(tuner: &mut Tuner, rounds: usize, curve: impl Fn(usize) -> f64, load: impl Fn(usize) -> Load) -> Vec<usize> {
    let mut round = || {
        let level = tuner.level();
        tuner.measured(curve(level), load(level));
        level
    };
    (0..rounds).map(|_| round()).collect()
}

fn quiet(tuner: &mut Tuner, rounds: usize, curve: impl Fn(usize) -> f64) -> Vec<usize> {
    levels(tuner, rounds, curve, |_| Load::Low)
}

fn share_at(levels: &[usize], wanted: impl Fn(usize) -> bool) -> f64 {
    levels.iter().filter(|level| wanted(**level)).count() as f64 / levels.len() as f64
}

fn tree(start: usize, most: usize) -> Tuner {
    Tuner::new(TREE, start, most)
}

fn file(start: usize, most: usize) -> Tuner {
    Tuner::of_file(start, most)
}

/// The first levels of a search on a curve, one line for each promise of the rule.
#[test]
fn the_rule_as_a_table() {
    let more = |level: usize| level as f64;
    let four = |level: usize| level.min(4) as f64;
    let fewer = |level: usize| 1.0 / level as f64;
    let alike = |_: usize| 1.0;
    type Curve<'a> = &'a dyn Fn(usize) -> f64;
    let table: [(&str, Tuner, Curve<'_>, &[usize]); 10] = [
        (
            "a tree goes up by halves while it gains",
            tree(1, 16),
            &more,
            &[1, 2, 3, 4, 6, 9, 13, 16, 16, 16, 16, 16, 16, 15],
        ),
        ("a file goes up by one while it gains", file(1, 6), &more, &[1, 2, 3, 4, 5, 6, 5, 6, 6, 6, 6, 6, 6, 6, 6, 5]),
        ("a tree goes back to where it gained", tree(2, 16), &four, &[2, 3, 4, 6, 4, 4, 4, 4, 4, 3, 4]),
        ("a file does, too", file(2, 8), &four, &[2, 3, 4, 5, 4, 4, 4, 4, 4, 4, 4, 4, 3, 4]),
        ("a tree takes fewer that cost nothing", tree(4, 8), &alike, &[4, 6, 4, 4, 4, 4, 4, 3, 2, 1, 1]),
        ("a file wants to gain by fewer", file(4, 8), &alike, &[4, 5, 4, 4, 4, 4, 4, 4, 4, 4, 3, 4]),
        ("a tree comes down from too many", tree(4, 8), &fewer, &[4, 6, 4, 4, 4, 4, 4, 3, 2, 1]),
        ("a file comes down from too many", file(4, 8), &fewer, &[4, 5, 4, 4, 4, 4, 4, 4, 4, 4, 3, 2, 1, 2, 1]),
        ("what is fixed stays", Tuner::fixed(3), &more, &[3; 20]),
        ("one stays one where there must be no more", file(1, 1), &more, &[1; 20]),
    ];
    for (promise, mut tuner, curve, expected) in table {
        assert_eq!(quiet(&mut tuner, expected.len(), curve), expected, "{promise}");
    }
}

#[test]
fn the_first_number_of_threads_is_that_of_the_processors_within_what_can_be_had() {
    let bounds = |cores, affordable, ceiling| {
        let tuner = Tuner::of_tree(cores, affordable, ceiling);
        (tuner.level(), tuner.most, tuner.ceiling())
    };
    assert_eq!(bounds(1, 1000, 0), (1, 4, 4));
    assert_eq!(bounds(2, 1000, 0), (2, 8, 8));
    assert_eq!(bounds(64, 1000, 0), (32, 32, 32));
    assert_eq!(bounds(8, 3, 100), (3, 3, 3), "memory for three");
    assert_eq!(bounds(2, 1000, 12), (2, 8, 12), "a profile has measured more");
}

#[test]
fn from_one_it_climbs_to_the_number_that_the_machine_bears() {
    let found = quiet(&mut tree(1, 16), 400, |level| level.min(4) as f64);
    assert!(found[..8].contains(&4), "{found:?}");
    assert!(share_at(&found[20..], |level| (4..=5).contains(&level)) > 0.9, "{found:?}");
    assert_eq!(quiet(&mut file(1, 8), 21, |workers| workers as f64)[7], 8);
    let found = quiet(&mut file(1, 8), 400, |workers| workers.min(4) as f64);
    assert!(share_at(&found[20..], |level| level == 4) > 0.9, "{found:?}");
}

#[test]
fn where_more_threads_are_slower_it_stays_with_one() {
    let found = quiet(&mut tree(1, 16), 400, |level| 1.0 / level as f64);
    assert!(share_at(&found, |level| level == 1) > 0.9, "{found:?}");
    let found = quiet(&mut file(4, 8), 200, |workers| 4.0 / workers as f64);
    assert!(share_at(&found[20..], |level| level == 1) > 0.9, "{found:?}");
}

#[test]
fn differences_that_are_noise_change_nothing_for_long() {
    let found = quiet(&mut file(2, 8), 200, |workers| 1.0 + 0.01 * workers as f64);
    assert!(found.iter().filter(|level| **level != 2).count() < 10, "{found:?}");
}

#[test]
fn it_does_not_climb_while_the_processors_are_busy() {
    let mut tuner = tree(2, 8);
    let found = levels(&mut tuner, 400, |level| level as f64, |_| Load::Full);
    assert!(found.iter().all(|level| *level <= 2), "{found:?}");
    assert!(share_at(&found, |level| level == 2) > 0.95, "{found:?}");
    // Of the rest that it has begun there is an end.
    assert!(quiet(&mut tuner, 200, |level| level as f64).contains(&8));
}

#[test]
fn it_fills_what_is_left_of_the_processors_and_stops_when_they_are_full() {
    let load = |level: usize| if level < 4 { Load::High } else { Load::Full };
    // Each thread more brings less than would be believed otherwise.
    let found = levels(&mut tree(2, 16), 60, |level| 100.0 + level.min(4) as f64, load);
    assert_eq!(found[..7], [2, 3, 3, 4, 4, 4, 4]);
    assert!(found.iter().all(|level| *level <= 4), "{found:?}");
}

#[test]
fn a_step_that_fills_the_processors_is_the_last_one() {
    let load = |level: usize| if level < 2 { Load::Low } else { Load::Full };
    let found = levels(&mut tree(1, 16), 200, |level| level.min(2) as f64, load);
    assert_eq!(found[..4], [1, 2, 2, 2]);
    assert!(found.iter().all(|level| *level <= 2), "{found:?}");
}

#[test]
fn a_gentle_step_that_costs_something_is_taken_back() {
    let found = levels(&mut tree(2, 16), 40, |level| 100.0 / level as f64, |_| Load::High);
    assert_eq!(found[..4], [2, 3, 2, 2]);
    assert!(share_at(&found, |level| level == 3) < 0.2, "{found:?}");
}

#[test]
fn a_low_start_is_for_those_that_search() {
    let (mut free, mut fixed) = (tree(4, 8), Tuner::fixed(4));
    free.start_low();
    fixed.start_low();
    assert_eq!((free.level(), fixed.level()), (1, 4));
}

#[test]
fn behind_a_network_it_starts_with_eight_and_goes_on_where_waiting_pays() {
    let remote = |cores, affordable| {
        let mut tuner = Tuner::of_tree(cores, affordable, MOST_REMOTE);
        tuner.start_remote();
        tuner
    };
    let found = quiet(&mut remote(2, 1000), 8, |level| level as f64);
    assert_eq!(found[..5], [8, 12, 18, 27, 32]);
    let found = quiet(&mut remote(2, 1000), 200, |level| level.min(4) as f64);
    assert!(share_at(&found[20..], |level| (4..=5).contains(&level)) > 0.9, "{found:?}");
    assert_eq!((remote(16, 1000).level(), remote(2, 3).level()), (16, 3), "as many as can be had");
    let mut fixed = Tuner::fixed(2);
    fixed.start_remote();
    assert_eq!(fixed.level(), 2);
    let mut found = remote(2, 1000);
    quiet(&mut found, 4, |level| level as f64);
    found.start_remote();
    assert_eq!(found.level(), 32, "what was found is not forgotten with each part from another process");
}

#[test]
fn a_level_is_fixed_within_the_bounds_and_never_against_the_user() {
    let (mut free, mut fixed) = (tree(4, 8), Tuner::fixed(4));
    free.fix(16);
    fixed.fix(2);
    assert_eq!((free.level(), fixed.level()), (8, 4));
    let mut higher = Tuner::of_tree(2, 1000, 12);
    assert!(quiet(&mut higher.clone(), 100, |level| level as f64).iter().all(|level| *level <= 8));
    higher.fix(16);
    assert_eq!(higher.level(), 12);
    free.start_low();
    assert_eq!(free.measured(1.0, Load::Low), 8);
}

#[test]
fn it_never_leaves_its_bounds() {
    let found = quiet(&mut tree(2, 3), 200, |level| level as f64);
    assert!(found.iter().all(|level| (1..=3).contains(level)), "{found:?}");
    assert!(quiet(&mut tree(1, 1), 50, |_| 1.0).iter().all(|level| *level == 1));
    assert_eq!(file(0, 0).level(), 1);
}

#[test]
fn a_measurement_is_made_of_enough_bytes_pieces_and_time() {
    let mut meter = Meter::new(1 << 20);
    let at = Duration::from_millis;
    assert_eq!(meter.moved(WINDOW_BYTES - 1, at(100)), None);
    assert_eq!(meter.moved(1, at(128)), Some(WINDOW_BYTES as f64 / 0.128));
    assert_eq!(meter.moved(2 * WINDOW_BYTES, at(138)), None, "ten milliseconds say nothing");
    assert_eq!(Meter::new(16 << 20).moved(WINDOW_BYTES, at(1000)), None, "four pieces say nothing");
}
