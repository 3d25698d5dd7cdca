//! The judge itself: it accepts cp, and no copier that loses something.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use haul_agree::hunt::{Bag, Hunt, Promise, hunt};
use haul_agree::report::report;
use haul_testbed::write_script;

use crate::support::{REFERENCE, haul_as_cp, lacks_root, room};

fn play(room: &Path, tested: &Path, seed: u64, cases: u64, failures: usize) -> Bag {
    play_for(Promise::LikeReference, room, tested, (seed, cases, failures))
}

fn play_for(promise: Promise, room: &Path, tested: &Path, (seed, cases, failures): (u64, u64, usize)) -> Bag {
    let (reference, tested, shrink) = (REFERENCE.into(), tested.to_owned(), false);
    hunt(&Hunt { promise, reference, tested, in_order: None, cases, seed, failures, shrink }, room)
        .expect("the judge can work")
}

/// Plays until a program is found out that is called as haul is, and does this with `haul`.
fn found_out(promise: Promise, deed: &str, sort: &str) {
    let room = room();
    let (haul, wrong) = (haul_as_cp(room.path()), room.path().join("cp-wrong"));
    let script = format!("#!/bin/bash\nhaul() {{ (exec -a cp '{}' \"$@\"); }}\n{deed}\n", haul.display());
    write_script(&wrong, script);
    let is_found_in = |block: u64| {
        let bag = play_for(promise, room.path(), &wrong, (block * 50, 50, 1000));
        bag.failures.iter().any(|failure| failure.differences.iter().any(|it| it.sort == sort))
    };
    assert!((0..12).any(is_found_in), "{deed}");
}

#[test]
fn the_judge_finds_out_a_dry_run_that_says_too_little_or_writes() {
    if lacks_root("the judge") {
        return;
    }
    for (deed, sort) in [
        ("haul \"$@\" | grep -av '^copy '", "unsaid"),
        ("haul \"$@\" | grep -av '^delete '", "undeleted"),
        ("haul \"$@\"; mkdir -p d/made", "touched"),
        ("haul \"$@\" | sed 's/^replace /skip /'", "not-skipped"),
        ("haul \"$@\"; echo \"cp: is wrong\" >&2", "false-alarm"),
    ] {
        let deed = format!("if [ \"$1\" = --dry-run ]; then {deed}; else haul \"$@\"; fi");
        found_out(Promise::AsForetold, &deed, sort);
    }
}

#[test]
fn the_judge_finds_out_a_move_that_loses_or_leaves_something() {
    if lacks_root("the judge") {
        return;
    }
    for (deed, sort) in [
        ("haul \"$@\"; rc=$?; find d -type f -delete 2>/dev/null; exit $rc", "lost"),
        ("shift; haul -a \"$@\"", "stays"),
        ("haul \"$@\"; rc=$?; chmod -R 7 d 2>/dev/null; exit $rc", "not-kept"),
        ("haul \"$@\"; rc=$?; rm -rf g; exit $rc", "touched"),
    ] {
        found_out(Promise::Moves, deed, sort);
    }
}

#[test]
fn the_judge_finds_cp_in_agreement_with_itself() {
    if lacks_root("the judge") {
        return;
    }
    let room = room();
    let bag = play(room.path(), Path::new(REFERENCE), 1_000_000, 200, 3);
    let text: String = bag.failures.iter().map(report).collect();
    assert!(bag.failures.is_empty(), "{text}");
    assert!(bag.compared >= 180, "only {} of 200 cases were compared", bag.compared);
}

/// A copier made of cp and a deed of sabotage; `$f` is each regular file below `d` in turn.
fn saboteur(room: &Path, deed: &str) -> std::path::PathBuf {
    let path = room.join("cp-wrong");
    let script = format!(
        "#!/bin/bash\n/bin/cp \"$@\"; rc=$?\n\
         each() {{ find d -type f -print0 2>/dev/null | while IFS= read -r -d '' f; do \"$1\" 2>/dev/null; done; }}\n\
         {deed}\nexit $rc\n"
    );
    write_script(&path, script);
    path
}

/// Plays until the saboteur is found out in the expected way.
fn caught(deed: &str, expected: &str) {
    const BLOCK: u64 = 40;
    if lacks_root("the judge") {
        return;
    }
    let room = room();
    let script = saboteur(room.path(), deed);
    let mut seen = Vec::new();
    for block in 0..10 {
        let home = room.path().join(block.to_string());
        fs::create_dir(&home).expect("a directory can be made");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).expect("a directory can be opened");
        let bag = play(&home, &script, 2_000_000 + block * BLOCK, BLOCK, BLOCK as usize);
        let differences = bag.failures.into_iter().flat_map(|failure| failure.differences);
        seen.extend(differences.map(|found| found.sort));
        if seen.iter().any(|sort| sort == expected) {
            return;
        }
    }
    panic!("wanted {expected}, saw {seen:?}");
}

#[test]
fn the_judge_catches_a_wrong_exit_status() {
    caught("[ $rc = 1 ] && rc=0", "exit");
}

#[test]
fn the_judge_catches_a_changed_message() {
    caught("[ $rc = 1 ] && echo more >&2", "stderr");
}

#[test]
fn the_judge_catches_a_lost_file() {
    caught("deed() { rm -f \"$f\"; }; each deed", "missing-f");
}

#[test]
fn the_judge_catches_a_lost_mode_bit() {
    caught("deed() { t=$(date +%s.%N -r \"$f\"); chmod o-r,u-s \"$f\"; }; each deed", "mode-f");
}

#[test]
fn the_judge_catches_one_wrong_byte() {
    let deed = "deed() { [ -s \"$f\" ] && t=$(stat -c %y \"$f\") && printf '\\001' | \
                dd of=\"$f\" conv=notrunc status=none && touch -d \"$t\" \"$f\"; }; each deed";
    caught(deed, "contents-f");
}

#[test]
fn the_judge_catches_a_filled_hole() {
    let deed = "deed() { fallocate -l $(stat -c %s \"$f\") \"$f\"; }; each deed";
    caught(deed, "blocks-f");
}

#[test]
fn the_judge_catches_a_lost_attribute() {
    caught("deed() { setfattr -x user.one \"$f\"; }; each deed", "xattr-f");
}

#[test]
fn the_judge_catches_a_lost_acl() {
    caught("deed() { setfacl -b \"$f\" || setfattr -x system.posix_acl_access \"$f\"; }; each deed", "xattr-f");
}

#[test]
fn the_judge_catches_a_lost_nanosecond() {
    let deed = "deed() { t=$(stat -c %Y \"$f\"); touch -d @$t \"$f\"; }; each deed";
    caught(deed, "mtime-f");
}

#[test]
fn the_judge_catches_a_broken_hard_link() {
    let deed =
        "deed() { [ $(stat -c %h \"$f\") -gt 1 ] && /bin/cp -a -- \"$f\" d/tmp && mv -T d/tmp \"$f\"; }; each deed";
    caught(deed, "links-f");
}

#[test]
fn the_judge_catches_a_changed_link_target() {
    let deed = "find d -type l -print0 2>/dev/null | while IFS= read -r -d '' f; do ln -sfn other \"$f\"; done";
    caught(deed, "contents-l");
}

#[test]
fn the_judge_catches_a_touched_source() {
    caught("touch s/a s/b s/c f 2>/dev/null", "mtime-f");
}

#[test]
fn the_judge_catches_a_wrong_owner() {
    caught("deed() { chown -h 5:5 \"$f\"; }; each deed", "owner-f");
}

#[test]
fn the_judge_catches_a_hang() {
    if lacks_root("the judge") {
        return;
    }
    // A case that hangs costs the whole time limit, so one must be enough.
    let room = room();
    let script = saboteur(room.path(), "exec sleep 1000");
    let bag = play(room.path(), &script, 3_000_000, 1, 1);
    assert_eq!(bag.failures[0].differences[0].sort, "hang");
}
