//! Good and bad snippets for each rule.

use super::source::{FILE_LINES, FUNCTION_LINES, Source};
use super::violation::Violation;
use super::{circles, crates, judge, pure};

fn violations(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> = files.iter().map(|(file, text)| Source::parse(file, text).unwrap()).collect();
    judge(&sources).iter().map(Violation::to_string).collect()
}

#[track_caller]
fn good(file: &str, text: &str) {
    assert_eq!(violations(&[(file, text)]), [""; 0]);
}

#[track_caller]
fn bad(file: &str, text: &str, line: usize, why: &str) {
    let found = violations(&[(file, text)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("{file}:{line}: ")), "{found:?}");
    assert!(found[0].contains(why), "{found:?}");
}

#[test]
fn imports_from_modules_below_are_fine() {
    good("crates/copy/src/publish/sides.rs", "use crate::journal::Record;\nuse super::Ready;\nuse haul_sys::Errno;");
    good("crates/copy/src/file/fill.rs", "use crate::{stats::Stats, work::{Entry, Frame}};");
    good("crates/copy/src/run/mod.rs", "mod files;\nuse self::files::F;\nuse crate::decide::choose;");
    good("crates/copy/src/run/files.rs", "use super::Session;\nuse super::super::journal::Entry;");
    good("crates/copy/src/events.rs", "use crate::stats::Stats;");
}

#[test]
fn imports_upwards_are_found() {
    bad("crates/copy/src/journal/record.rs", "\nuse crate::publish::Ready;", 2, "journal imports upwards from publish");
    bad("crates/copy/src/journal/mod.rs", "use crate::run::Cancel;", 1, "upwards from run");
    bad("crates/copy/src/journal/read/parts.rs", "use super::super::super::run::Cancel;", 1, "upwards from run");
    bad("crates/copy/src/decide/mod.rs", "use super::super::run::Cancel;", 1, "upwards from run");
}

#[test]
fn imports_sideways_are_found() {
    bad("crates/copy/src/report/mod.rs", "use crate::schedule::Pool;", 1, "report imports sideways from schedule");
    bad("crates/fs/src/meta/mod.rs", "use crate::walk::Spot;", 1, "meta imports sideways from walk");
}

#[test]
fn imports_from_the_root_of_the_crate_are_found() {
    bad("crates/copy/src/plan.rs", "use crate::Plan;", 1, "root of the crate");
    bad("crates/copy/src/plan.rs", "use crate::*;", 1, "root of the crate");
}

#[test]
fn one_bad_branch_of_a_use_tree_is_found_at_its_line() {
    let text = "use crate::{\n    plan::Plan,\n    run::{Cancel, Session},\n    stats::Stats,\n};";
    let found = violations(&[("crates/copy/src/journal/mod.rs", text)]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line.starts_with("crates/copy/src/journal/mod.rs:3: journal imports upwards")));
}

#[test]
fn paths_in_bodies_types_and_macros_are_found() {
    bad("crates/copy/src/images.rs", "fn f() {\n    crate::decide::go();\n}", 2, "upwards from decide");
    bad("crates/copy/src/images.rs", "struct S(\ncrate::work::Entry);", 2, "upwards from work");
    bad("crates/copy/src/images.rs", "fn f() {\n    assert!(crate::run::ok(),\n \"\");\n}", 2, "upwards from run");
    bad(
        "crates/copy/src/images.rs",
        "macro_rules! m {\n    () => { $crate::journal::X };\n}",
        2,
        "upwards from journal",
    );
}

#[test]
fn paths_in_inline_modules_are_resolved() {
    good("crates/copy/src/report/mod.rs", "mod inner {\n    use super::Other;\n    use super::super::plan::Plan;\n}");
    bad(
        "crates/copy/src/report/mod.rs",
        "mod inner {\n    use super::super::schedule::Pool;\n}",
        2,
        "sideways from schedule",
    );
}

#[test]
fn scopes_comments_and_strings_are_no_imports() {
    good(
        "crates/copy/src/plan.rs",
        "//! See [`crate::run`].\npub(in crate::run) struct S;\npub(crate) fn f() -> &'static str { \"crate::run\" }",
    );
}

#[test]
fn unit_tests_may_import_from_anywhere_in_the_crate() {
    good("crates/copy/src/plan.rs", "#[cfg(test)]\nmod tests {\n    use crate::run::run;\n}");
    good("crates/copy/src/plan.rs", "#[cfg(test)]\nuse crate::run::run;\nuse crate::stats::Stats;");
    bad(
        "crates/copy/src/plan.rs",
        "#[cfg(test)]\nuse crate::run::run;\nuse crate::journal::Journal;",
        3,
        "upwards from journal",
    );
}

#[test]
fn data_modules_may_not_import_in_a_circle() {
    let events = ("crates/copy/src/events.rs", "use crate::stats::Stats;");
    let stats = ("crates/copy/src/stats.rs", "use crate::images::ImageReport;");
    assert_eq!(violations(&[events, stats]), [""; 0]);
    let facts = ("crates/copy/src/images.rs", "use crate::events::Event;");
    let found = violations(&[events, stats, facts]);
    assert_eq!(found.iter().filter(|line| line.contains("the other way round")).count(), 3, "{found:?}");
}

#[test]
fn a_module_that_the_root_re_exports_of_another_crate_is_below_all() {
    let root = ("crates/copy/src/lib.rs", "#![forbid(unsafe_code)]\nmod wire;\npub use haul_fs::{error, walk};");
    let wire = ("crates/copy/src/stats.rs", "use crate::error::Error;\nuse crate::walk::Spot;");
    assert_eq!(violations(&[root, wire]), [""; 0]);
    bad(wire.0, "\nuse crate::walk::Spot;", 2, "root of the crate");
}

#[test]
fn an_unknown_room_is_found() {
    bad("crates/copy/src/misc.rs", "fn f() {}", 1, "misc is not a module");
}

#[test]
fn front_ends_do_not_import_each_other() {
    bad("crates/lab/src/probe.rs", "\nuse haul_mpi::x;", 2, "crate lab may not import crate mpi");
    good("crates/lab/src/probe.rs", "use haul_copy::plan::Plan;");
}

#[test]
fn the_measuring_kit_is_for_the_laboratory_only_and_knows_no_copying() {
    good("crates/lab/src/doubts.rs", "use haul_measure::stats::spread;");
    good("crates/measure/src/load.rs", "use haul_sys::process_state::Usage;");
    bad("crates/measure/src/load.rs", "use haul_copy::plan::Plan;", 1, "crate measure may not import crate copy");
    bad("crates/cli/src/a.rs", "use haul_measure::stats;", 1, "crate cli may not import crate measure");
    bad("crates/copy/src/plan.rs", "use haul_measure::stats;", 1, "crate copy may not import crate measure");
    assert!(crates::objection("testbed", "haul-measure", false).is_some());
}

#[test]
fn guest_and_sys_import_nothing_of_ours() {
    bad("crates/guest/src/gpt.rs", "use haul_sys::Errno;", 1, "it may import nothing of ours");
    bad("crates/sys/src/child.rs", "fn f() { haul_copy::run::run() }", 1, "crate sys may not import crate copy");
}

#[test]
fn names_and_attributes_know_no_copying() {
    good("crates/fs/src/walk/spot.rs", "use haul_sys::Errno;");
    good("crates/copy/src/plan.rs", "pub use haul_fs::preserve::Preserve;");
    bad("crates/fs/src/meta/mod.rs", "use haul_copy::plan::Plan;", 1, "it may import sys");
}

#[test]
fn tests_keep_the_graph_of_crates_too() {
    bad("crates/copy/tests/all.rs", "use haul_lab::x;", 1, "crate copy may not import crate lab");
    good("crates/copy/tests/all.rs", "use haul_copy::run::run;\nuse haul_sys::Errno;");
}

#[test]
fn manifests_obey_the_same_graph() {
    assert!(crates::objection("copy", "haul-cli", false).is_some());
    assert!(crates::objection("copy", "haul", false).is_some());
    assert!(crates::objection("guest", "haul-sys", true).is_some());
    assert!(crates::objection("new", "haul-sys", false).is_some());
    assert!(crates::objection("cli", "haul-copy", false).is_none());
    assert!(crates::objection("guest", "rustix", false).is_none());
}

#[test]
fn crates_for_tests_are_for_tests_only() {
    assert!(crates::objection("copy", "haul-testbed", true).is_none());
    assert!(crates::objection("copy", "haul-testbed", false).is_some());
    assert!(crates::objection("testbed", "haul-sys", false).is_none());
}

#[test]
fn unsafe_code_outside_sys_is_found() {
    bad("crates/cli/src/a.rs", "fn f() {\n    unsafe { g() }\n}", 2, "unsafe code outside crates/sys");
    bad("crates/cli/src/a.rs", "macro_rules! m {\n    () => { unsafe { g() } };\n}", 2, "unsafe code");
    bad("crates/cli/tests/a.rs", "unsafe fn g() {}", 1, "unsafe code");
    good("crates/sys/src/a.rs", "fn f() { unsafe { g() } }");
    good("crates/cli/src/a.rs", "// unsafe\nconst A: &str = \"unsafe\";");
}

#[test]
fn a_crate_must_forbid_unsafe_code() {
    bad("crates/lab/src/main.rs", "fn main() {}", 1, "forbid(unsafe_code)");
    good("crates/lab/src/main.rs", "#![forbid(unsafe_code)]\nfn main() {}");
}

#[test]
fn a_library_keeps_to_itself() {
    bad("crates/copy/src/plan.rs", "fn f() {\n    println!(\"x\");\n}", 2, "prints");
    bad("crates/copy/src/tree/mod.rs", "use std::env;", 1, "environment");
    bad("crates/sys/src/x.rs", "fn f() { std::process::exit(1) }", 1, "ends the process");
    good("crates/cli/src/x.rs", "fn f() { println!(); std::process::exit(1) }");
    good("crates/copy/src/plan.rs", "#[cfg(test)]\nmod tests { fn f() { println!(); } }");
}

#[test]
fn io_in_a_module_that_computes_is_found() {
    bad("crates/copy/src/decide/mod.rs", "\nuse std::fs::File;", 2, "names std::fs::File");
    bad("crates/io/src/tuner.rs", "use std::{\n    cmp::max,\n    net::TcpStream,\n};", 3, "names std::net::TcpStream");
    bad("crates/guest/src/fs/fat/mod.rs", "use std::io;\nfn f() { io::stdin(); }", 2, "names std::io::stdin");
    bad("crates/copy/src/stats.rs", "use haul_sys::rustix::fs::open;", 1, "names haul_sys::rustix::fs::open");
    bad("crates/io/src/strategy/tiny.rs", "use haul_sys::page_cache;", 1, "names haul_sys::page_cache");
    bad("crates/io/src/tuner.rs", "use std::time::Instant;\nfn f() { Instant::now(); }", 2, "std::time::Instant::now");
    bad("crates/io/src/tuner.rs", "fn f() { std::time::SystemTime::now(); }", 1, "std::time::SystemTime::now");
}

#[test]
fn values_errors_and_traits_of_readers_are_no_io() {
    good("crates/copy/src/list/format.rs", "use std::io::{self, ErrorKind, Read};\nfn f() -> io::Result<()> { g() }");
    good("crates/fs/src/error.rs", "use haul_sys::Errno;\nuse std::os::unix::ffi::OsStrExt;");
    good("crates/io/src/tuner.rs", "use std::time::{Duration, Instant};\nfn f(now: Instant) {}");
    good("crates/io/src/tuner.rs", "#[cfg(test)]\nmod tests { fn f() { std::fs::read(\"a\"); } }");
    good("crates/copy/src/decide/tests.rs", "use std::fs;");
    good("crates/io/src/probe.rs", "use std::fs;");
}

#[test]
fn a_module_that_computes_calls_none_that_may_do_io() {
    let probe = ("crates/io/src/probe.rs", "pub struct Device;\npub fn look() {}");
    let uses = |text| violations(&[probe, ("crates/io/src/strategy.rs", text)]);
    assert_eq!(uses("use crate::probe::Device;"), [""; 0], "a type is a value");
    for text in ["use crate::probe::look;", "use crate::probe;", "fn f() { crate::probe::look(); }"] {
        let found = uses(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("of crates/io/src/probe.rs, which may do some"), "{found:?}");
    }
}

#[test]
fn a_list_of_pure_modules_names_files_that_exist() {
    let sources = [Source::parse("crates/guest/src/gpt.rs", "").unwrap()];
    let found: Vec<String> = pure::outdated(&sources).iter().map(Violation::to_string).collect();
    assert!(found.iter().any(|line| line.contains("crates/io/src/tuner.rs is not there")), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("crates/guest/src/ is not there")), "{found:?}");
}

/// The needless items of a crate with this library and this file beside it.
fn needless(library: &str, other: (&str, &str)) -> Vec<String> {
    let found = violations(&[("crates/measure/src/lib.rs", library), other]);
    let ours = found.iter().filter_map(|line| Some(line.split_once(" is used by nobody")?.0.rsplit_once(' ')?.1));
    ours.map(str::to_owned).collect()
}

const LIBRARY: &str = "#![forbid(unsafe_code)]\n";

#[test]
fn what_nobody_outside_uses_is_not_public() {
    let library = format!("{LIBRARY}pub fn used() {{}}\npub fn unused() {{}}\npub(crate) fn own() {{ unused() }}");
    let user = "use haul_measure::used;";
    assert_eq!(needless(&library, ("crates/lab/src/a.rs", user)), ["unused"]);
    for place in ["crates/measure/tests/a.rs", "crates/measure/examples/a.rs", "crates/measure/src/bin/a.rs"] {
        assert_eq!(needless(&library, (place, user)), ["unused"], "{place}");
    }
    let found = violations(&[("crates/measure/src/lib.rs", &library), ("crates/lab/src/a.rs", user)]);
    let why = "crates/measure/src/lib.rs:3: pub fn unused is used by nobody outside crates/measure";
    assert!(found[0].starts_with(why), "{found:?}");
}

#[test]
fn a_name_in_the_tests_or_modules_of_the_crate_itself_is_no_use_by_others() {
    let library = format!("{LIBRARY}pub fn f() {{}}\n#[cfg(test)]\nmod tests {{ use super::f; }}");
    assert_eq!(needless(&library, ("crates/measure/src/a.rs", "use crate::f;")), ["f"]);
    assert_eq!(needless(&library, ("crates/lab/src/a.rs", "fn f() { g() }")), ["f"]);
    assert_eq!(needless(&library, ("crates/cli/src/a.rs", "use crate::f;")), ["f"], "a crate that does not import it");
}

#[test]
fn what_public_items_show_is_public() {
    let library = format!(
        "{LIBRARY}pub struct Answer {{ pub part: Part, own: Own }}\npub struct Part;\npub struct Own;\npub enum Kind {{ A }}
         pub fn used(kind: Kind) -> Answer {{ todo!() }}\nimpl Iterator for Answer {{ type Item = Element; }}\npub struct Element;"
    );
    assert_eq!(needless(&library, ("crates/lab/src/a.rs", "use haul_measure::used;")), ["Own"]);
}

#[test]
fn methods_are_public_for_others_too() {
    let library = format!("{LIBRARY}pub struct S;\nimpl S {{\n    pub fn a(&self) {{}}\n    pub fn b(&self) {{}}\n}}");
    assert_eq!(needless(&library, ("crates/lab/src/a.rs", "fn f(s: haul_measure::S) { s.a() }")), ["b"]);
    let hidden = format!("{LIBRARY}struct S;\nimpl S {{ pub fn b(&self) {{}} }}");
    assert_eq!(needless(&hidden, ("crates/lab/src/a.rs", "use haul_measure::x;")), [""; 0], "nobody reaches it");
}

#[test]
fn only_what_others_reach_by_modules_counts() {
    let files = |root: &str| {
        let root = format!("{LIBRARY}{root}");
        let inner = ("crates/measure/src/inner.rs", "pub fn f() {}");
        let found = violations(&[("crates/measure/src/lib.rs", &root), inner]);
        found.len()
    };
    assert_eq!(files("mod inner;"), 0);
    assert_eq!(files("pub(crate) mod inner;"), 0);
    assert_eq!(files("mod inner;\npub use inner::f;"), 1);
    assert_eq!(files("mod inner;\npub use inner::*;"), 1);
    assert_eq!(files("pub mod inner;"), 2, "the module is needless, too");
}

#[test]
fn examples_in_the_documentation_use_what_they_name() {
    let library = format!(
        "{LIBRARY}/// Text.\n/// ```\n/// haul_measure::shown();\n/// ```\n/// And hidden.\npub fn shown() {{}}\npub fn hidden() {{}}"
    );
    assert_eq!(needless(&library, ("crates/lab/src/a.rs", "")), ["hidden"]);
}

#[test]
fn a_process_of_a_test_without_a_deadline_is_found() {
    let why = "a process without a deadline";
    bad("crates/cli/tests/a.rs", "use std::fs;\nuse std::process::Command;", 2, why);
    bad("crates/copy/tests/a/b.rs", "use std::process::{\n    Stdio,\n    Child,\n};", 3, why);
    bad(
        "crates/guest/tests/a.rs",
        "fn f() {\n    assert!(std::process::Command::new(\"a\").spawn().is_ok());\n}",
        2,
        why,
    );
    bad("testing/testbed/src/bed.rs", "use std::process;\nfn f(child: process::Child) {}", 2, why);
    bad("crates/copy/src/plan.rs", "#[cfg(test)]\nmod tests {\n    use std::process::Command;\n}", 3, why);
    let above = "use std::process::Command;\n#[cfg(test)]\nmod tests {\n    use super::*;\n    fn f() { Command::new(\"a\"); }\n}";
    bad("crates/lab/src/a.rs", above, 5, why);
}

#[test]
fn processes_with_deadlines_and_those_of_the_product_are_fine() {
    good("crates/cli/tests/a.rs", "use std::process::{Output, Stdio};\nuse haul_testbed::{Child, Command};");
    good("crates/lab/src/a.rs", "use std::process::{Child, Command};\nfn f() { Command::new(\"a\"); }");
    good("crates/cli/src/a.rs", "#[cfg(test)]\nmod tests { fn f() { haul_testbed::Command::new(\"a\"); } }");
    let both = "use std::process::Command;\n#[cfg(test)]\nmod tests { fn f() { haul_testbed::Command::new(\"a\"); } }";
    good("crates/lab/src/a.rs", both);
    good("testing/testbed/src/process.rs", "use std::process::Command;");
    good("crates/sys/src/child.rs", "#[cfg(test)]\nmod tests { use std::process::Command; }");
}

#[test]
fn a_long_file_is_found() {
    good("crates/cli/src/a.rs", &"\n".repeat(FILE_LINES));
    bad("crates/cli/src/a.rs", &"\n".repeat(FILE_LINES + 1), FILE_LINES + 1, "701 lines");
    good("crates/cli/tests/a.rs", &"\n".repeat(FILE_LINES + 1));
}

#[test]
fn a_long_function_is_found() {
    let function = |lines: usize| format!("\nfn long() {{{}}}", "\n".repeat(lines - 1));
    good("crates/cli/src/a.rs", &function(FUNCTION_LINES));
    bad("crates/cli/src/a.rs", &function(FUNCTION_LINES + 1), 2, "fn long has 81 lines");
    let method = format!("impl S {{ {} }}", function(FUNCTION_LINES + 1));
    bad("crates/cli/src/a.rs", &method, 2, "fn long");
    good("crates/cli/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {} }}", function(FUNCTION_LINES + 1)));
}

/// How many of these files are in circles.
fn circular(files: &[(&str, &str)]) -> usize {
    let sources: Vec<Source> = files.iter().map(|(file, text)| Source::parse(file, text).unwrap()).collect();
    circles::check(&sources).len()
}

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    let files = [("crates/x/src/a.rs", "use crate::b::B;"), ("crates/x/src/b.rs", "fn f() { crate::a::f() }")];
    assert_eq!(circular(&files), 2);
    assert_eq!(circular(&files[..1]), 0);
    assert_eq!(violations(&files).len(), 2);
}

#[test]
fn a_parent_and_a_child_that_need_each_other_are_a_circle() {
    let parent = ("crates/x/src/a/mod.rs", "mod b;\npub struct A;\nfn f() { b::f() }");
    assert_eq!(circular(&[parent, ("crates/x/src/a/b.rs", "use super::A;")]), 2);
    assert_eq!(circular(&[parent, ("crates/x/src/a/b.rs", "pub fn f() {}")]), 0);
}

#[test]
fn an_import_by_a_re_export_needs_the_file_behind_it() {
    let parent = ("crates/x/src/a/mod.rs", "mod b;\nmod c;\npub use b::B;\npub use c::C;");
    let files = [parent, ("crates/x/src/a/b.rs", "pub struct B;"), ("crates/x/src/a/c.rs", "use super::B;")];
    assert_eq!(circular(&files), 0);
    let back = [parent, ("crates/x/src/a/b.rs", "use super::C;"), ("crates/x/src/a/c.rs", "use super::B;")];
    assert_eq!(circular(&back), 2);
}

#[test]
fn tests_and_other_crates_make_no_circle() {
    let a = ("crates/x/src/a.rs", "#[cfg(test)]\nmod tests { use crate::b::B; }");
    assert_eq!(circular(&[a, ("crates/x/src/b.rs", "use crate::a::A;")]), 0);
    let b = ("crates/y/src/b.rs", "use crate::a::A;");
    assert_eq!(circular(&[("crates/x/src/a.rs", "use crate::b::B;"), b]), 0);
}

#[test]
fn an_inherent_impl_stands_in_the_module_of_its_type() {
    let a = ("crates/x/src/a.rs", "pub struct A;\nimpl A {}");
    let b = ("crates/x/src/b.rs", "struct B;\nimpl crate::a::A {}\nimpl Clone for crate::a::A {}\nimpl B {}");
    let found = violations(&[a, b]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/x/src/b.rs:2: an inherent impl of A outside crates/x/src/a.rs"), "{found:?}");
    let elsewhere = ("crates/y/src/b.rs", "impl A {}");
    assert_eq!(violations(&[a, elsewhere]), [""; 0], "a type of another crate cannot have one");
}
