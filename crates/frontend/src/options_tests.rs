//! What command lines mean. What they are refused for is compared with the system's cp in tests/command_line.rs.

use std::collections::HashSet;
use std::sync::Arc;

use haul_copy::filter::Choice;
use haul_copy::list::Names;
use haul_copy::plan::{
    Backup, ContextRule, DataOptions, Delete, Dereference, Destination, EngineChoice, EngineName, IfChanged, LinkMode,
    ModeRule, Overwrite, Preserve, Reflink, Sparse, SpecialFiles, Update, Wish, Writeback,
};

use super::*;
use crate::environment::Security;
use crate::flags::CP_ORDER;
use crate::run_options::Profiles;
use crate::show::{StatsFormat, When};
use crate::throttle::{Priority, Throttling};
use crate::values::Origin;

fn environment() -> Environment {
    Environment {
        posixly_correct: false,
        version_control: None,
        backup_suffix: None,
        security: || Security::None,
        saved_machines: Vec::new,
    }
}

fn parse_as(persona: Persona, environment: &Environment, line: &str) -> Result<Invocation, Complaint> {
    let arguments = line.split_whitespace().map(OsString::from);
    parse(arguments, persona, environment, &Quoter::from_environment(), &mut |_| {})
}

fn parsed(line: &str) -> (Plan, Show) {
    parsed_in(&environment(), line)
}

fn parsed_in(environment: &Environment, line: &str) -> (Plan, Show) {
    match parse_as(Persona::Haul, environment, line) {
        Ok(Invocation::Copy(plan, show, _)) => (*plan, show),
        other => panic!("{line}: {other:?}"),
    }
}

/// The plan for these options.
fn plan(options: &str) -> Plan {
    parsed(&format!("{options} a b")).0
}

fn refused(line: &str) -> String {
    match parse_as(Persona::Haul, &environment(), line) {
        Err(complaint) => String::from_utf8_lossy(&complaint.message).into_owned(),
        Ok(other) => panic!("{line}: {other:?}"),
    }
}

#[test]
fn without_options_the_plan_is_the_default() {
    let (plan, show) = parsed("a b");
    let (sources, destination) = (vec!["a".into()], Destination::Guess("b".into()));
    let data = DataOptions { writeback: Writeback::Auto, ..DataOptions::default() };
    let expected = Plan { sources, destination, if_changed: IfChanged::Warn, data, ..Plan::default() };
    assert_eq!(format!("{plan:?}"), format!("{expected:?}"));
    assert_eq!(show, Show { progress: When::Auto, ..Show::default() });
}

#[test]
fn the_destination_is_where_the_options_say() {
    let directory = |name: &str| Destination::Directory(name.into());
    assert_eq!(parsed("-t d a b").0.destination, directory("d"));
    assert_eq!(parsed("a -td").0.destination, directory("d"));
    assert_eq!(parsed("-T a b").0.destination, Destination::Exactly("b".into()));
    let plan = parsed("a b c").0;
    assert_eq!(plan.destination, Destination::Guess("c".into()));
    assert_eq!(plan.sources, ["a", "b"]);
}

#[test]
fn a_command_to_be_repeated_says_what_its_destination_is() {
    let directory = |name: &str| Destination::Directory(name.into());
    for option in ["--resume", "--shard=1/2", "--shard=status"] {
        let of = |line: &str| parsed(&format!("{option} {line}")).0.destination;
        assert_eq!(of("a b/"), directory("b/"));
        assert_eq!(of("a ."), directory("."));
        assert_eq!(of("-t b a"), directory("b"));
        assert_eq!(of("-T a b/"), Destination::Exactly("b/".into()));
        assert_eq!(of("a b c"), Destination::Guess("c".into()));
        let why = refused(&format!("{option} a b"));
        assert!(why.contains("add -T to copy to 'b' itself, or write 'b/' to copy into it"), "{why}");
    }
    assert_eq!(parsed("a b/").0.destination, Destination::Guess("b/".into()), "as cp reads it");
    assert_eq!(parsed("--resume --parents a b").0.destination, Destination::Guess("b".into()));
    assert!(refused("--compare --resume a b").contains("--compare"));
}

#[test]
fn what_goes_is_what_the_options_on_deletion_say() {
    let deletes = |options: &str| parsed(&format!("-aT {options} a b")).0.delete;
    let safe = Delete::default();
    assert_eq!(deletes(""), None);
    assert_eq!(deletes("--delete"), Some(safe));
    assert_eq!(deletes("--delete=force --max-delete=0"), Some(Delete { force: true, most: Some(0), ..safe }));
    assert_eq!(deletes("--delete-excluded --delete=force --delete=safe"), Some(Delete { excluded: true, ..safe }));
    assert_eq!(parsed("-r --delete a b/").0.destination, Destination::Directory("b/".into()));
    assert!(refused("-r --delete a b").starts_with("with --delete the destination must not mean two things"));
    assert!(refused("-aT --delete --list-out=l a").contains("--list-out"));
    assert!(refused("-aT --delete --list=l a b").contains("--list"));
}

#[test]
fn a_mirror_is_a_whole_copy_that_deletes() {
    let mirror = parsed("--mirror a b").0;
    let spelt = parsed("-aT --update=changed --delete a b").0;
    assert_eq!(format!("{mirror:?}"), format!("{spelt:?}"));
    assert_eq!(parsed("--update=content --mirror a b").0.update, Update::Content);
    assert_eq!(parsed("--mirror --update=all --delete=force a b").0.update, Update::All);
    assert_eq!(parsed("--update=all --mirror a b").0.update, Update::All);
}

#[test]
fn links_are_followed_by_the_last_word_on_it_or_by_default() {
    use Dereference::{Always, Never, Operands};
    for (options, expected) in [
        ("", Always),
        ("-r", Never),
        ("-R -l", Always),
        ("-l", Always),
        ("-s", Always),
        ("-rL", Always),
        ("-rH", Operands),
        ("-P", Never),
        ("-LP", Never),
        ("-PL", Always),
        ("-d", Never),
        ("-a", Never),
        ("-aL", Always),
        ("-La", Never),
        ("-aH", Operands),
    ] {
        assert_eq!(plan(options).dereference, expected, "{options}");
    }
}

#[test]
fn i_and_n_override_each_other_and_update_only_itself() {
    use Overwrite::{Ask, Refuse, Replace, Skip};
    use Update::{All, Changed, Content, Older};
    for (options, overwrite, update) in [
        ("", Replace, All),
        ("-i", Ask, All),
        ("-n", Skip, All),
        ("-i -n", Skip, All),
        ("-n -i", Ask, All),
        ("-u", Replace, Older),
        ("-u -i", Ask, Older),
        ("-i -u", Ask, Older),
        ("-u -n", Skip, All),
        ("-n -u", Skip, All),
        ("-u -n -i", Ask, Older),
        ("--update", Replace, Older),
        ("--update=older", Replace, Older),
        ("--update=all", Replace, All),
        ("-u --update=all", Replace, All),
        ("-i --update=all", Ask, All),
        ("--update=none", Skip, All),
        ("--update=none-fail", Refuse, All),
        ("--update=none --update=all", Replace, All),
        ("--update=none -u", Replace, Older),
        ("--update=none-fail -n", Skip, All),
        ("-n --update=none-fail", Skip, All),
        ("-u --update=none", Skip, All),
        ("--update=changed", Replace, Changed),
        ("--update=content -i", Ask, Content),
        ("-u --update=content", Replace, Content),
        ("--update=changed -n", Skip, All),
    ] {
        let plan = plan(options);
        assert_eq!((plan.overwrite, plan.update), (overwrite, update), "{options}");
    }
}

#[test]
fn what_is_linked_is_not_compared() {
    for line in ["-l --update=changed a b", "--update=content -s a b"] {
        assert!(refused(line).starts_with("--update=changed and --update=content"), "{line}");
    }
    assert_eq!(plan("-l --update=changed --update=older").update, Update::Older);
}

#[test]
fn update_none_protects_files_whatever_i_n_and_f_say() {
    for (update, expected) in [("none", Overwrite::Skip), ("none-fail", Overwrite::Refuse)] {
        for around in ["-i @", "@ -i", "-n @ -i", "@ -n -i", "-n -i @", "-n -f @ -i", "-f @", "-i @ -f", "-u @ -i"] {
            let options = around.replace('@', &format!("--update={update}"));
            assert_eq!(plan(&options).overwrite, expected, "{options}");
        }
    }
}

#[test]
fn backups_and_keeping_old_files_exclude_each_other() {
    for line in [
        "-b -n a b",
        "-b --update=none a b",
        "--backup=none --update=none-fail a b",
        "-S x --update=none a b",
        "-b --update=none -i a b",
    ] {
        assert_eq!(refused(line), "--backup is mutually exclusive with -n or --update=none-fail", "{line}");
    }
}

#[test]
fn backups_are_made_as_options_and_environment_say() {
    let with = |control: &str, suffix: &str| Environment {
        version_control: Some(control.into()),
        backup_suffix: Some(suffix.into()),
        ..environment()
    };
    for (environment, options, backup, suffix) in [
        (environment(), "", Backup::None, "~"),
        (environment(), "-b", Backup::Existing, "~"),
        (environment(), "--backup", Backup::Existing, "~"),
        (environment(), "--backup=t", Backup::Numbered, "~"),
        (environment(), "--backup=numb", Backup::Numbered, "~"),
        (environment(), "--backup=simple", Backup::Simple, "~"),
        (environment(), "--backup=never", Backup::Simple, "~"),
        (environment(), "--backup=off", Backup::None, "~"),
        (environment(), "--backup=t -b", Backup::Numbered, "~"),
        (environment(), "-S .old", Backup::Existing, ".old"),
        (environment(), "-b --suffix=a/b", Backup::Existing, "~"),
        (environment(), "-b --suffix=/b", Backup::Existing, "~"),
        (environment(), "-b --suffix=b/", Backup::Existing, "b/"),
        (environment(), "-b --suffix=", Backup::Existing, "~"),
        (with("numbered", ".x"), "", Backup::None, ".x"),
        (with("numbered", ".x"), "-b", Backup::Numbered, ".x"),
        (with("numbered", ".x"), "--backup=simple", Backup::Simple, ".x"),
        (with("numbered", ".x"), "--backup= -S .y", Backup::Numbered, ".y"),
        (with("", ""), "-b", Backup::Existing, "~"),
        // Not looked at, so not complained about.
        (with("nonsense", "a/b"), "", Backup::None, "~"),
    ] {
        let plan = parsed_in(&environment, &format!("{options} a b")).0;
        assert_eq!((plan.backup, plan.backup_suffix), (backup, suffix.into()), "{options}");
    }
}

#[test]
fn attributes_are_kept_as_the_options_say_in_their_order() {
    let none = Preserve::default();
    let common = Preserve { mode: ModeRule::Keep, ownership: true, timestamps: true, required: true, ..none };
    let all = Preserve { links: true, xattr: Wish::Try, ..common };
    for (options, expected) in [
        ("-p", common),
        ("--preserve", common),
        ("--preserve=mode", Preserve { mode: ModeRule::Keep, required: true, ..none }),
        ("--preserve=time,own", Preserve { timestamps: true, ownership: true, required: true, ..none }),
        ("--preserve=all", all),
        ("-a", Preserve { quiet: true, ..all }),
        ("-d", Preserve { links: true, ..none }),
        ("--preserve=xattr", Preserve { xattr: Wish::Require, required: true, ..none }),
        ("-a --preserve=xattr", Preserve { xattr: Wish::Require, quiet: true, ..all }),
        ("--preserve=xattr -a", Preserve { xattr: Wish::Require, quiet: true, ..all }),
        ("-a --no-preserve=xattr", Preserve { xattr: Wish::No, quiet: true, ..all }),
        ("--no-preserve=mode", Preserve { mode: ModeRule::Discard, ..none }),
        ("-p --no-preserve=mode", Preserve { mode: ModeRule::Discard, ..common }),
        ("--no-preserve=mode -p", common),
        ("-a --no-preserve=all", Preserve { mode: ModeRule::Discard, required: true, quiet: true, ..none }),
        ("--preserve=flags", Preserve { flags: true, required: true, ..none }),
        ("--preserve=project,flags", Preserve { flags: true, project: true, required: true, ..none }),
        ("--preserve=flags --no-preserve=flags", Preserve { required: true, ..none }),
    ] {
        assert_eq!(plan(options).preserve, expected, "{options}");
    }
    assert!(plan("-a").recursive);
}

#[test]
fn contexts_are_kept_or_set_where_there_is_selinux() {
    let selinux = Environment { security: || Security::Selinux, ..environment() };
    let fixed = || ContextRule::Fixed("x".into());
    for (options, wish, rule) in [
        ("", Wish::No, ContextRule::Default),
        ("-a", Wish::Try, ContextRule::Default),
        ("--preserve=all", Wish::Try, ContextRule::Default),
        ("--preserve=context", Wish::Require, ContextRule::Default),
        ("-Z", Wish::No, ContextRule::OfDestination),
        ("--context", Wish::No, ContextRule::OfDestination),
        ("--context=x", Wish::No, fixed()),
        ("-aZ", Wish::No, ContextRule::OfDestination),
        ("-a --context=x", Wish::No, fixed()),
    ] {
        let plan = parsed_in(&selinux, &format!("{options} a b")).0;
        assert_eq!((plan.preserve.context, &plan.context), (wish, &rule), "{options}");
    }
    let both = parse_as(Persona::Cp, &selinux, "-Z --preserve=context a b");
    assert_eq!(both.expect_err("they contradict").message, b"cannot set target context and preserve it");
    assert_eq!(plan("-Z").context, ContextRule::Default);
    let smack = Environment { security: || Security::Smack, ..environment() };
    assert_eq!(parsed_in(&smack, "--context=x a b").0.context, fixed());
    assert_eq!(parsed_in(&smack, "-Z a b").0.context, ContextRule::Default);
}

#[test]
fn forced_links_replace_in_one_step_and_do_not_remove_first() {
    for (options, link, remove) in [
        ("-l", LinkMode::Hard, false),
        ("-s", LinkMode::Symbolic, false),
        ("-lf", LinkMode::Hard, false),
        ("-fs", LinkMode::Symbolic, false),
        ("-f", LinkMode::Copy, false),
        ("--remove-destination", LinkMode::Copy, true),
    ] {
        let plan = plan(options);
        assert_eq!((plan.link, plan.remove_destination), (link, remove), "{options}");
    }
}

#[test]
fn switches_turn_on_what_they_are_named_after() {
    type Switch = (&'static str, fn(&Plan) -> bool);
    let switches: [Switch; 9] = [
        ("--attributes-only", |plan| plan.attributes_only),
        ("--copy-contents", |plan| plan.special_files == SpecialFiles::Contents),
        ("-f", |plan| plan.force),
        ("--keep-directory-symlink", |plan| plan.keep_directory_symlink),
        ("-x", |plan| plan.one_file_system),
        ("--parents", |plan| plan.parents),
        ("--path", |plan| plan.parents),
        ("-R", |plan| plan.recursive),
        ("--strip-trailing-slashes", |plan| plan.strip_trailing_slashes),
    ];
    for (option, is_on) in switches {
        assert!(is_on(&plan(option)), "{option}");
        assert!(!is_on(&plan("")), "{option}");
    }
}

#[test]
fn posixly_correct_writes_through_dangling_links() {
    let posix = Environment { posixly_correct: true, ..environment() };
    assert!(parsed_in(&posix, "a b").0.write_through_dangling_link);
}

#[test]
fn data_goes_the_way_that_is_asked_for() {
    assert_eq!(plan("--reflink").data.reflink, Reflink::Always);
    assert_eq!(plan("--reflink=auto").data.reflink, Reflink::Auto);
    assert_eq!(plan("--reflink=never").data.reflink, Reflink::Never);
    assert_eq!(plan("--sparse=always").data.sparse, Sparse::Always);
    assert_eq!(plan("--sparse=n").data.sparse, Sparse::Never);
    assert_eq!(plan("--engine=auto").data.engine, EngineChoice::Auto);
    for engine in EngineName::ALL {
        assert_eq!(plan(&format!("--engine={engine}")).data.engine, EngineChoice::Only(engine));
    }
    assert_eq!(plan("--engine=spl").data.engine, EngineChoice::Only(EngineName::Splice));
    assert_eq!(plan("--buffer-size=8M").data.buffer_size, Some(8 << 20));
    assert_eq!(plan("--jobs=3").jobs, Some(3));
    assert_eq!(plan("-aj3").jobs, Some(3));
    for (option, message) in [
        ("--buffer-size=x", "invalid --buffer-size argument 'x': a number from 1 to 1G is wanted"),
        ("--buffer-size=0", "invalid --buffer-size argument '0': a number from 1 to 1G is wanted"),
        ("--buffer-size=2G", "invalid --buffer-size argument '2G': a number from 1 to 1G is wanted"),
        ("--jobs=0", "invalid --jobs argument '0': a number from 1 to 65536 is wanted"),
        ("-j65537", "invalid --jobs argument '65537': a number from 1 to 65536 is wanted"),
        ("-j -1", "invalid --jobs argument '-1': a number from 1 to 65536 is wanted"),
    ] {
        assert_eq!(refused(&format!("{option} a b")), message);
    }
}

#[test]
fn what_is_shown_depends_on_options_and_name() {
    let show = |options: &str| parsed(&format!("{options} a b")).1;
    assert!(show("-v").verbose);
    assert!(show("--debug").verbose && show("--debug").debug);
    assert!(show("--explain").explain && !show("--explain").verbose);
    assert_eq!(show("--progress=never").progress, When::Never);
    assert_eq!(show("--progress=always").progress, When::Always);
    let quiet = show("-q");
    assert!(quiet.quiet && quiet.progress == When::Never && !quiet.verbose);
    assert_eq!(show("--quiet --progress=always").progress, When::Always, "the last word counts");
    assert_eq!(show("--progress=always -q").progress, When::Never, "the last word counts");
    assert_eq!(show("--stats").stats, Some(StatsFormat::Text));
    assert_eq!(show("--stats=json").stats, Some(StatsFormat::Json));
    let as_cp = |line: &str| match parse_as(Persona::Cp, &environment(), line) {
        Ok(Invocation::Copy(_, show, _)) => show.progress,
        other => panic!("{other:?}"),
    };
    assert_eq!(as_cp("a b"), When::Never);
    assert_eq!(as_cp("--progress a b"), When::Auto);
}

#[test]
fn help_and_version_end_the_reading() {
    assert!(matches!(
        parse_as(Persona::Haul, &environment(), "--help --bogus"),
        Ok(Invocation::Print(Information::Help))
    ));
    assert!(matches!(
        parse_as(Persona::Haul, &environment(), "-l -s --vers"),
        Ok(Invocation::Print(Information::Version))
    ));
    assert_eq!(refused("--bogus --help"), "unrecognized option '--bogus'");
}

fn run_options(options: &str) -> RunOptions {
    match parse_as(Persona::Haul, &environment(), &format!("{options} a b")) {
        Ok(Invocation::Copy(_, _, run)) => run,
        other => panic!("{options}: {other:?}"),
    }
}

#[test]
fn throttling_is_what_the_options_say() {
    use haul_io::pace::Limit;
    assert_eq!(run_options(""), RunOptions::default());
    let expected = Throttling {
        limit: Limit { bytes: Some(3 << 19), operations: Some(100) },
        control: Some("file".into()),
        yields: true,
        priority: Some(Priority::Nice(-5)),
    };
    assert_eq!(run_options("--limit=1.5M,100 --control=file --yield --priority=-5").throttling, expected);
    assert_eq!(run_options("--limit=1M --limit=none").throttling.limit, Limit::NONE, "the last one counts");
    assert_eq!(run_options("--priority idle").throttling.priority, Some(Priority::Idle));
    assert_eq!(plan("--readahead").data.readahead, Some(8 << 20));
    assert_eq!(plan("--readahead=1M").data.readahead, Some(1 << 20));
    assert_eq!(plan("").data.readahead, None);
}

#[test]
fn the_last_word_on_profiles_counts_and_none_is_no_file() {
    for (options, expected) in [
        ("", Profiles::Usual),
        ("--profile=none", Profiles::None),
        ("--profile none --profile=p", Profiles::Named("p".into())),
        ("--profile=./none", Profiles::Named("./none".into())),
    ] {
        assert_eq!(run_options(options).profiles, expected, "{options}");
    }
    assert!(plan("--profile=p").data.profile.is_none(), "it is read later");
    for line in ["--compare --profile=p a b", "--punch --smart --profile=p a"] {
        assert!(refused(line).contains("combined with"), "{line}");
    }
}

#[test]
fn throttling_that_means_nothing_is_refused() {
    for (line, message) in [
        ("--limit=fast a b", "invalid --limit argument 'fast'"),
        ("--limit= a b", "invalid --limit argument ''"),
        ("--priority=20 a b", "invalid --priority argument '20': a number from -20 to 19, or idle, is wanted"),
        ("--readahead=0 a b", "invalid --readahead argument '0': a number from 1 to 1G is wanted"),
        ("--readahead=2G a b", "invalid --readahead argument '2G': a number from 1 to 1G is wanted"),
    ] {
        assert_eq!(refused(line), message);
    }
}

#[test]
fn the_table_has_cps_long_options_and_no_others_of_that_age() {
    let ours: HashSet<&str> =
        FLAGS.iter().filter(|f| f.origin == Origin::Cp && !f.long.is_empty()).map(|f| f.long).collect();
    let mut cps: HashSet<&str> = CP_ORDER.into();
    assert!(cps.remove("path"));
    assert_eq!(ours, cps);
}

#[test]
fn names_are_taken_once_and_effects_fit_arguments() {
    crate::flags::check(&FLAGS);
}

#[test]
fn patterns_are_kept_in_the_order_in_which_they_are_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("patterns");
    std::fs::write(&file, "c\n!d\n").expect("a file");
    let plan = plan(&format!("--exclude=a --include b --exclude-from={} --exclude=e/", file.display()));
    let filter = plan.filter.expect("there are patterns");
    let rules: Vec<_> =
        filter.choice().rules.iter().map(|rule| (rule.pattern.to_str().expect("text"), rule.include)).collect();
    assert_eq!(rules, [("a", false), ("b", true), ("d", true), ("c", false), ("e/", false)]);
}

#[test]
fn what_a_file_must_be_is_a_choice_too() {
    let plan = plan("--exclude-caches --max-size=1K --min-size=2 --newer-than=@5");
    let newer_than = Some(haul_sys::inode::Time { seconds: 5, nanoseconds: 0 });
    let expected =
        Choice { rules: Vec::new(), exclude_caches: true, max_size: Some(1024), min_size: Some(2), newer_than };
    assert_eq!(plan.filter.expect("a filter").choice(), &expected);
    assert!(parsed("a b").0.filter.is_none());
}

#[test]
fn a_list_of_names_is_read_as_it_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("names");
    std::fs::write(&file, "b\n/a\nb").expect("a file");
    let read = |options: &str| plan(&format!("{options} --files-from={}", file.display()));
    let names =
        |text: &str, end, contents| Some(Arc::new(Names::parse(text.as_bytes(), end, contents).expect("names")));
    assert_eq!(read("-a").names, names("a\nb", b'\n', false));
    assert_eq!(read("-ar").names, names("a\nb", b'\n', true));
    assert_eq!(read("-0").names, names("b\n/a\nb", 0, false));
    let without = read("");
    assert!(without.recursive && without.dereference == Dereference::Never, "the source is a directory");
}

#[test]
fn called_as_cp_only_the_letters_of_cp_are_options() {
    let letter = |persona| parse_as(persona, &environment(), "-0 a b").expect_err("-0 alone is none").message;
    assert_eq!(letter(Persona::Cp), b"invalid option -- '0'");
    for (line, message) in [("-j2 a b", "invalid option -- 'j'"), ("-q a b", "invalid option -- 'q'")] {
        let refused = parse_as(Persona::Cp, &environment(), line).expect_err("cp has no such letter");
        assert_eq!(refused.message, message.as_bytes());
    }
    assert!(letter(Persona::Haul).starts_with(b"--from0 has a meaning only with"));
}

#[test]
fn failures_are_listed_only_where_files_from_can_take_them() {
    for (line, why) in [
        ("--failures=l -r a b c", "--failures wants one SOURCE"),
        ("--failures=l -rL a b", "--failures does not go with -L"),
        ("--failures=l --parents a b", "--failures does not go with --parents"),
        ("--failures=l --move a b", "--failures does not go with --move"),
        ("--failures=l --dry-run a b", "--failures does not go with --dry-run"),
        ("--failures=l --list=m a b", "--failures does not go with --list"),
        ("--failures=l --list-out=m a b", "--failures does not go with --list-out"),
        ("-a --failures=l a b", "with --failures the destination must not mean two things"),
        ("-0 a b", "--from0 has a meaning only with --files-from and --failures"),
    ] {
        let said = refused(line);
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn what_could_have_no_effect_is_refused() {
    for (line, why) in [
        ("-r --list-out=l --digests=m a b", "--list-out does not go with --checksum and --digests"),
        ("-r --list-out=l --stats a b", "--list-out does not go with --stats"),
        ("-r -l --checksum=blake3 a b", "--checksum and --digests do not go with -l, -s and --attributes-only"),
        ("-r --attributes-only --digests=m a b", "--checksum and --digests do not go with"),
        ("--limit=0.5 a b", "0.5"),
    ] {
        let said = refused(line);
        assert!(said.contains(why), "{line}: {said}");
    }
    let mut draft = Draft::new(Persona::Haul, &environment());
    (draft.run.reads_input, draft.plan.overwrite) = (true, Overwrite::Ask);
    assert!(choice::settle_input(&draft).is_err());
}

#[test]
fn a_move_keeps_everything_and_refuses_what_it_cannot_be_with() {
    let moved = plan("--move");
    assert!(moved.moves && moved.recursive && !plan("-a").moves);
    let preserve = Preserve { quiet: false, ..plan("-a --preserve=xattr").preserve };
    assert_eq!((moved.dereference, moved.preserve), (Dereference::Never, preserve));
    for (options, why) in [
        ("--move -l", "--move does not go with --link"),
        ("--move -L", "--move does not go with -L and -H"),
        ("--move --resume -T", "--move does not go with --resume"),
        ("--move --list-out=l", "--move does not go with --list-out"),
        ("--move --digests=l", "--move does not go with --checksum and --digests"),
    ] {
        let said = refused(&format!("{options} a b"));
        assert!(said.contains(why), "{options}: {said}");
    }
    assert_eq!(plan("--move -L -P").dereference, Dereference::Never, "the last word counts");
}
