//! The commands that measure.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use haul_io::profile::SizeClass;
use haul_measure::cache::Temperature;
use haul_measure::own::Own;
use haul_measure::stop::Stop;
use haul_measure::words::quoted;
use haul_measure::{space, values, workspace};

use super::answer::{Answer, Complaint, usage};
use crate::experiments::{async_tree, compare, in_kernel, mapped_copy, mapped_write, reproduce, sparse_image, tune};
use crate::map::terminal::Screen;
use crate::report;
use crate::results::{Outcome, Results, replace};
use crate::session::{Halt, How, REPORTS, Session, Settings};
use crate::signals;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Measuring {
    directory: PathBuf,
    /// Another one, for those of [`TWO`].
    second: Option<PathBuf>,
    /// Where results go, how often, how long.
    settings: Settings,
    experiment: Experiment,
    /// The words that make it another measurement.
    words: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Experiment {
    MappedCopy(mapped_copy::Request),
    InKernel(in_kernel::Request),
    MappedWrite(mapped_write::Request),
    AsyncTree(async_tree::Request),
    SparseImage(sparse_image::Request),
    Compare(compare::Request),
    Reproduce(reproduce::Request),
    Tune(tune::Request),
}

/// Those that take a second directory: copies are made there, too.
const TWO: &[&str] = &[mapped_copy::NAME, async_tree::NAME, reproduce::NAME];

/// Options that most of them take.
const COMMON: &[&str] = &["runs", "timeout", "time"];

/// A command: its name, its own options, those that others take as well, and what it does if none is given.
pub type Command = (&'static str, &'static [&'static str], &'static [&'static str], fn() -> Experiment);

pub const COMMANDS: [Command; 8] = [
    (mapped_copy::NAME, &["size", "buffers", "states"], COMMON, || Experiment::MappedCopy(Default::default())),
    (in_kernel::NAME, &["sizes", "cold"], COMMON, || Experiment::InKernel(Default::default())),
    (mapped_write::NAME, &["rounds", "files", "step", "segment", "threshold", "pause", "space", "time"], &[], || {
        Experiment::MappedWrite(Default::default())
    }),
    (async_tree::NAME, &["totals", "files", "variants"], COMMON, || Experiment::AsyncTree(Default::default())),
    (sparse_image::NAME, &["size", "image"], COMMON, || Experiment::SparseImage(Default::default())),
    (compare::NAME, &["source", "dest", "with", "cold", "archive"], COMMON, || Experiment::Compare(Default::default())),
    (reproduce::NAME, &["budget", "space"], &["timeout"], || Experiment::Reproduce(Default::default())),
    (tune::NAME, &["time", "space", "profile", "dry-run", "files"], &["timeout"], || {
        let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let profile = tune::usual_profile(from("XDG_CONFIG_HOME"), from("HOME"));
        Experiment::Tune(tune::Request { profile, ..tune::Request::default() })
    }),
];

/// Whether a command of this name measures.
pub fn is_one(name: &str) -> bool {
    COMMANDS.iter().any(|(known, ..)| *known == name)
}

pub fn run(name: &str, words: Vec<OsString>) -> Result<Answer, Complaint> {
    let wanted = parse(name, words).map_err(usage)?;
    let own = Own::running()?;
    let stop = signals::stop().map_err(|error| haul_measure::words::of(&error))?;
    measure(wanted, own, stop)
}

fn measure(wanted: Measuring, own: Own, stop: Stop) -> Result<Answer, Complaint> {
    check(&wanted, &stop)?;
    if stop.is_stopped() {
        return Err(Complaint::Stopped);
    }
    let deadline = wanted.settings.time.map(|time| Instant::now() + time);
    let mut settings = wanted.settings;
    if let Experiment::Reproduce(request) = &wanted.experiment {
        settings.space = request.space;
    }
    let mut session = Session::begin(own, stop, wanted.words, (&wanted.directory, wanted.second.as_deref()), settings)?;
    session.deadline = deadline;
    let ended = match &wanted.experiment {
        Experiment::MappedCopy(request) => mapped_copy::run(&mut session, request),
        Experiment::InKernel(request) => in_kernel::run(&mut session, request),
        Experiment::MappedWrite(request) => {
            let time = session.settings.time.unwrap_or(mapped_write::USUAL_TIME);
            mapped_write::run_in(&mut session, &request.clone().within(time))
        }
        Experiment::AsyncTree(request) => async_tree::run(&mut session, request),
        Experiment::SparseImage(request) => sparse_image::run(&mut session, request),
        Experiment::Compare(request) => compare::run(&mut session, request),
        Experiment::Reproduce(request) => reproduce::run(&mut session, request),
        Experiment::Tune(request) => tune::run(&mut session, request),
    };
    let output = session.output.clone();
    let saved = if ended.is_ok() { session.all_done() } else { Ok(()) };
    if matches!(ended, Err(Halt::Failed(_))) {
        session.forget_empty_output();
    }
    let results = session.finish();
    if let (Err(_), Err(why)) = (&ended, &results) {
        eprintln!("haul-lab: {why}");
    }
    match ended {
        Ok(()) => {}
        Err(Halt::Stopped) => {
            eprintln!(
                "haul-lab: stopped; the same command with --output={} goes on with what is there",
                output.display()
            );
            return Err(Complaint::Stopped);
        }
        Err(Halt::Failed(why)) => {
            if output.exists() {
                eprintln!("haul-lab: what was measured until now is in {}", quoted(&output));
            }
            return Err(Complaint::Failed(why));
        }
    }
    saved?;
    let results = results?;
    let text = write_report(&results, &output)?;
    Ok(Answer { text, done: all_right(&results) })
}

/// What can be known to fail before anything is made.
fn check(wanted: &Measuring, stop: &Stop) -> Result<(), String> {
    let directory = workspace::usable(&wanted.directory)?;
    if let Some(second) = &wanted.second
        && workspace::usable(second)? == directory
    {
        return Err(format!("{} is named twice; name a directory on another device", quoted(second)));
    }
    let largest = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or(0).saturating_mul(3);
    let (needed, what) = match &wanted.experiment {
        Experiment::MappedCopy(request) => (request.size.saturating_mul(3), mapped_copy::NAME),
        Experiment::InKernel(request) => (largest(&request.sizes), in_kernel::NAME),
        // It takes half of what is free at most, and says what there was no room for.
        Experiment::MappedWrite(_) => (0, mapped_write::NAME),
        Experiment::AsyncTree(request) => (largest(&request.totals), async_tree::NAME),
        Experiment::SparseImage(request) => (sparse_image::room(request)?, sparse_image::NAME),
        Experiment::Reproduce(request) => (request.sizes()?.image.saturating_mul(4), reproduce::NAME),
        Experiment::Tune(request) => {
            request.check()?;
            // Each search looks for itself, and makes do with less.
            (0, tune::NAME)
        }
        Experiment::Compare(request) => {
            request.check()?;
            let results = wanted.settings.output.clone().or_else(|| std::env::current_dir().ok());
            for folder in [Some(wanted.directory.clone()), results].into_iter().flatten() {
                let failed = haul_measure::words::cannot("find", &folder);
                if will_be(&folder).map_err(failed)?.starts_with(&request.source) {
                    return Err(format!(
                        "{} is in the source, which would grow while it is copied; choose another directory, or --output",
                        quoted(&folder)
                    ));
                }
            }
            (compare::room(request, stop)?, compare::NAME)
        }
    };
    let mut directories = std::iter::once(&wanted.directory).chain(&wanted.second);
    directories.try_for_each(|directory| space::check(directory, needed, what))
}

/// Writes the report into the folder of the results, and gives what is printed of it.
fn write_report(results: &Results, output: &Path) -> Result<String, String> {
    let page = report::page(results);
    let texts = [report::html::page(&page), report::markdown::page(&page), report::csv::page(&page.views, results)];
    for (name, text) in REPORTS.into_iter().zip(texts) {
        let path = output.join(name);
        replace(&path, text.as_bytes()).map_err(haul_measure::words::cannot("write", &path))?;
    }
    let text = report::terminal::page(&page, Screen::here().columns);
    Ok(format!("{text}\nThe report is {}\n", output.join("report.html").display()))
}

/// Whether a case of a section is a copy by haul: of the system's programs only cp is in experiments. Settings of `tune` that take
/// long are given up, which is no failure.
fn is_ours(section: &str, competitor: &str) -> bool {
    section != tune::NAME && competitor != "cp" && !competitor.starts_with("cp,")
}

/// Whether every copy is right, and everybody whom the user has named has made one, and haul those that it can make here.
fn all_right(results: &Results) -> bool {
    let mut cases = results.sections.iter().flat_map(|section| section.cases.iter().map(move |case| (section, case)));
    cases.all(|(section, case)| match case.outcome {
        Outcome::Right | Outcome::Unverified => true,
        Outcome::Wrong(_) | Outcome::NotAsNamed(_) => false,
        _ if section.name == compare::NAME => false,
        Outcome::Refused(_) => true,
        Outcome::Failed(_) | Outcome::TooLong(_) => !is_ours(&section.name, &case.competitor),
    })
}

fn parse(name: &str, words: Vec<OsString>) -> Result<Measuring, lexopt::Error> {
    use lexopt::prelude::*;
    let (words, after) = match words.iter().position(|word| word == "--") {
        Some(at) if name == compare::NAME => (words[..at].to_vec(), words[at + 1..].to_vec()),
        _ => (words, Vec::new()),
    };
    let (_, own, common, make) =
        COMMANDS.iter().find(|(known, ..)| *known == name).ok_or_else(|| format!("unknown task {name:?}"))?;
    let (mut directory, mut second) = (None, None);
    let mut settings = Settings::default();
    let mut options: Vec<(String, OsString)> = Vec::new();
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(path) if directory.is_none() && name != compare::NAME => directory = Some(PathBuf::from(path)),
            Value(path) if directory.is_some() && second.is_none() && TWO.contains(&name) => {
                second = Some(PathBuf::from(path))
            }
            Long("output") => settings.output = Some(parser.value()?.into()),
            Long(long) => {
                let long = long.to_owned();
                if !own.contains(&long.as_str()) && !common.contains(&long.as_str()) {
                    return Err(format!("invalid option '--{long}'").into());
                }
                let flag = FLAGS.contains(&long.as_str());
                options.push((long, if flag { OsString::new() } else { parser.value()? }));
            }
            other => return Err(other.unexpected()),
        }
    }
    let mut said: Vec<String> = vec![name.to_owned()];
    let mut experiment = make();
    for (option, path) in &options {
        let of_option = |error: String| format!("{error} for '--{option}'");
        let value = match PATHS.contains(&option.as_str()) {
            // Two paths of one place are the same measurement, and one path from two places is not.
            true => real(path).to_string_lossy().into_owned(),
            false => path.to_str().ok_or_else(|| of_option(format!("invalid argument {path:?}")))?.to_owned(),
        };
        let value = value.as_str();
        said.push(if FLAGS.contains(&option.as_str()) { format!("--{option}") } else { format!("--{option}={value}") });
        match option.as_str() {
            "runs" => settings.runs = usize::try_from(values::number(value).map_err(of_option)?).unwrap_or(usize::MAX),
            "timeout" => settings.timeout = values::time(value).map_err(of_option)?,
            "time" => settings.time = Some(values::time(value).map_err(of_option)?),
            "dest" => directory = Some(PathBuf::from(path)),
            "image" | "source" | "profile" => experiment.set_path(real(path)),
            _ => experiment.set(option, value).map_err(of_option)?,
        }
    }
    if let Experiment::Compare(request) = &mut experiment {
        request.commands = command_lines(after)?;
        said.extend(request.commands.iter().map(How::name));
        if request.source.as_os_str().is_empty() {
            return Err("missing option: --source, what is to be copied".into());
        }
    }
    let directory = match name {
        compare::NAME => directory.ok_or("missing option: --dest, where copies go")?,
        _ => directory.ok_or("missing operand: the directory to measure in")?,
    };
    if name != compare::NAME {
        let directories = std::iter::once(&directory).chain(&second);
        said.extend(directories.map(|path| real(path.as_os_str()).to_string_lossy().into_owned()));
    }
    Ok(Measuring { directory, second, settings, experiment, words: said })
}

/// A path without links and dots, or as it is if there is nothing yet.
fn real(path: &OsStr) -> PathBuf {
    Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path))
}

/// The path without links and dots of what is there, or will be when it is made with the folders above it.
fn will_be(path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        // What is found until here has neither links nor dots, so the way up is that of the names.
        match component {
            Component::ParentDir => drop(real.pop()),
            name => real.push(name),
        }
        real = real.canonicalize().unwrap_or(real);
    }
    Ok(real)
}

/// Options that name files.
const PATHS: &[&str] = &["source", "dest", "image", "profile"];

/// Options without values.
const FLAGS: &[&str] = &["cold", "archive", "dry-run"];

/// What comes after `--`: one command in words, or command lines if the first of them has both places in it.
fn command_lines(words: Vec<OsString>) -> Result<Vec<How>, String> {
    let words: Result<Vec<String>, OsString> = words.into_iter().map(OsString::into_string).collect();
    let words = words.map_err(|word| format!("{word:?} is not UTF-8"))?;
    let is_line =
        |word: &String| word.contains(crate::session::PLACE_OF_SOURCE) && word.contains(crate::session::PLACE_OF_DEST);
    match words.first() {
        None => Ok(Vec::new()),
        Some(first) if is_line(first) => Ok(words.into_iter().map(How::Line).collect()),
        Some(_) => Ok(vec![How::Words(words)]),
    }
}

impl Experiment {
    fn set_path(&mut self, path: PathBuf) {
        match self {
            Experiment::SparseImage(request) => request.image = Some(path),
            Experiment::Compare(request) => request.source = path,
            Experiment::Tune(request) => request.profile = Some(path),
            _ => {}
        }
    }

    /// Obeys an option that this experiment has, by [`COMMANDS`].
    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match (self, option) {
            (Experiment::MappedCopy(request), "size") => request.size = values::size(value)?,
            (Experiment::MappedCopy(request), "buffers") => request.buffers = values::list(value, values::size)?,
            (Experiment::MappedCopy(request), "states") => request.states = values::list(value, state)?,
            (Experiment::InKernel(request), "sizes") => request.sizes = values::list(value, values::size)?,
            (Experiment::InKernel(request), "cold") => request.state = Temperature::Cold,
            (Experiment::MappedWrite(request), "rounds") => request.msync.rounds = small(value)?,
            (Experiment::MappedWrite(request), "files") => request.stall.files = small(value)?,
            (Experiment::MappedWrite(request), "space") => request.grow_to(values::size(value)?),
            (Experiment::MappedWrite(request), "step") => request.stall.step = values::size(value)?,
            (Experiment::MappedWrite(request), "segment") => request.stall.segment = values::size(value)?,
            (Experiment::MappedWrite(request), "threshold") => request.stall.threshold = values::time(value)?,
            (Experiment::MappedWrite(request), "pause") => request.stall.pause = values::time(value)?,
            (Experiment::AsyncTree(request), "totals") => request.totals = values::list(value, values::size)?,
            (Experiment::AsyncTree(request), "files") => request.files = values::list(value, values::number)?,
            (Experiment::AsyncTree(request), "variants") => request.variants = values::list(value, variant)?,
            (Experiment::SparseImage(request), "size") => {
                request.size = values::size(value)? / sparse_image::UNIT * sparse_image::UNIT;
                if request.size < sparse_image::SMALLEST {
                    return Err(format!(
                        "{value:?} is less than {}",
                        haul_measure::words::bytes(sparse_image::SMALLEST)
                    ));
                }
            }
            (Experiment::Compare(request), "with") => request.known = value.split(',').map(str::to_owned).collect(),
            (Experiment::Compare(request), "cold") => request.state = Temperature::Cold,
            (Experiment::Compare(request), "archive") => request.archive = true,
            (Experiment::Reproduce(request), "budget") => request.budget = values::time(value)?,
            (Experiment::Reproduce(request), "space") => request.space = values::size(value)?,
            (Experiment::Tune(request), "space") => request.space = values::size(value)?,
            (Experiment::Tune(request), "dry-run") => request.dry_run = true,
            (Experiment::Tune(request), "files") => request.classes = values::list(value, class)?,
            _ => return Err("it has no meaning here".to_owned()),
        }
        Ok(())
    }
}

fn small(text: &str) -> Result<u32, String> {
    u32::try_from(values::number(text)?).map_err(|_| format!("{text:?} is too many"))
}

fn state(text: &str) -> Result<Temperature, String> {
    [Temperature::Cold, Temperature::Warm]
        .into_iter()
        .find(|state| state.as_str() == text)
        .ok_or(format!("{text:?} is neither cold nor warm"))
}

fn class(text: &str) -> Result<SizeClass, String> {
    text.parse().map_err(|()| format!("{text:?} is none of {}", SizeClass::ALL.map(SizeClass::as_str).join(", ")))
}

fn variant(text: &str) -> Result<String, String> {
    let known = async_tree::VARIANTS.contains(&text);
    known.then(|| text.to_owned()).ok_or(format!("{text:?} is none of {}", async_tree::VARIANTS.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::results::{Case, Section};

    fn parsed(name: &str, words: &[&str]) -> Result<Measuring, String> {
        parse(name, words.iter().map(OsString::from).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn where_results_go_does_not_make_it_another_measurement() {
        let one = parsed("in-kernel", &["--output=a", "--sizes=1M,2M", "dir"]).unwrap();
        let two = parsed("in-kernel", &["dir", "--sizes", "1M,2M", "--output", "b"]).unwrap();
        assert_eq!(one.words, two.words);
        let Experiment::InKernel(request) = &one.experiment else { panic!("{one:?}") };
        assert_eq!(request.sizes, [1 << 20, 2 << 20]);
        assert_ne!(one.words, parsed("in-kernel", &["--sizes=1M", "dir"]).unwrap().words);
    }

    #[test]
    fn a_report_knows_the_command_that_runs_all_experiments() {
        let words = parsed(reproduce::NAME, &["dir"]).unwrap().words;
        assert_eq!(words.first().map(String::as_str), Some(crate::report::sections::ALL));
    }

    #[test]
    fn a_command_in_words_keeps_its_words() {
        let lines = |words: &[&str]| command_lines(words.iter().map(OsString::from).collect()).unwrap();
        let words = ["my cp", "a'b", "{source}", "{dest}"];
        assert_eq!(lines(&words), [How::Words(words.map(str::to_owned).to_vec())]);
        let two = ["cp {source} {dest}", "tar {source} | x {dest}"];
        assert_eq!(lines(&two), two.map(|line| How::Line(line.to_owned())));
    }

    #[test]
    fn a_copy_by_haul_that_fails_or_takes_too_long_is_not_all_right() {
        let right = |section: &str, competitor: &str, outcome: Outcome| {
            let mut results = Results::begun(Vec::new());
            let mut section = Section::new(section, "directory");
            section.cases.push(Case { competitor: competitor.to_owned(), outcome, ..Case::default() });
            results.sections.push(section);
            all_right(&results)
        };
        let (failed, late) = (|| Outcome::Failed("no".into()), || Outcome::TooLong("over 1 s".into()));
        let refused = || Outcome::Refused("not here".into());
        for ours in ["read-write 8 MiB", "haul (auto)", "smart read, sparse output"] {
            assert!(!right("mapped-copy", ours, failed()) && !right("mapped-copy", ours, late()), "{ours}");
            assert!(right("mapped-copy", ours, refused()));
        }
        assert!(right("async-tree", "cp, priority", failed()) && right("in-kernel", "cp", late()));
        assert!(right(tune::NAME, "splice", failed()));
        assert!(!right(compare::NAME, "cp", failed()) && !right(compare::NAME, "cp", refused()));
        assert!(!right("in-kernel", "cp", Outcome::Wrong("it is not".into())));
    }

    #[test]
    fn what_is_not_there_yet_has_its_real_path() {
        let dir = haul_testbed::temp_dir();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink("a", real.join("link")).unwrap();
        for (path, expected) in [("link/new/x", "a/new/x"), ("new/../link", "a"), ("link/../new", "new"), ("a", "a")] {
            assert_eq!(will_be(&real.join(path)).unwrap(), real.join(expected), "{path}");
        }
        assert_eq!(will_be("new".as_ref()).unwrap(), std::env::current_dir().unwrap().join("new"));
    }

    #[test]
    fn the_options_of_one_experiment_are_none_of_another() {
        assert_eq!(parsed("in-kernel", &["--variants=plain", "x"]), Err("invalid option '--variants'".to_owned()));
        assert!(parsed("async-tree", &["--variants=plain,odd", "x"]).unwrap_err().starts_with("\"odd\" is none of"));
        assert!(parsed("compare", &["--dest=x", "--", "cp"]).unwrap_err().contains("--source"));
    }
}
