//! The committed man page and completions are those that the table of options gives, and their readers accept them.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use haul_io::engine::EngineName;
use haul_testbed::{Command, skip};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../generated")
}

/// Runs a program; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8").output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(format!("{program} is not installed"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Accepted without a word.
fn accepts(program: &str, arguments: &[&str]) {
    if let Some(output) = run(program, arguments) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{program} {arguments:?}: {said}");
    }
}

/// The files as they are made from the table, whatever is committed.
struct Fresh(haul_testbed::TempDir);

impl Fresh {
    fn new() -> Fresh {
        let dir = haul_testbed::temp_dir();
        for (name, text) in haul::generate::files() {
            fs::write(dir.path().join(name), text).expect("the file can be written");
        }
        Fresh(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("temporary names are ASCII").to_owned()
    }
}

#[test]
fn the_page_about_engines_has_a_row_for_every_one() {
    let page = haul_testbed::document("engines.md");
    for engine in EngineName::ALL {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| `{engine}` |"))).count();
        assert_eq!(rows, 1, "{engine}");
    }
}

#[test]
fn the_committed_files_are_up_to_date() {
    let regenerate = std::env::var_os("HAUL_REGENERATE").is_some_and(|value| value == "1");
    for (name, text) in haul::generate::files() {
        let path = folder().join(&name);
        if regenerate {
            fs::create_dir_all(folder()).expect("the folder can be made");
            fs::write(&path, &text).expect("the file can be written");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "generated/{name} is stale: run HAUL_REGENERATE=1 cargo test -p haul-cli --test generated"
        );
    }
}

#[test]
fn no_documentation_mentions_an_old_name_of_an_option() {
    let help = haul_frontend::help::help("haul".as_ref());
    for (name, text) in haul::generate::files().into_iter().chain([("--help".to_owned(), help)]) {
        let text = text.replace("\\-", "-");
        for flag in haul_frontend::options::FLAGS.iter().filter(|flag| !flag.former.is_empty()) {
            let old = format!("--{}", flag.former);
            let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            assert!(words.all(|word| word != old), "{name} mentions {old}");
        }
    }
}

#[test]
fn man_renders_the_page_without_warnings() {
    let fresh = Fresh::new();
    accepts("man", &["--warnings=w", "--local-file", &fresh.path("haul.1")]);
}

#[test]
fn mandoc_has_no_complaint_about_the_page() {
    let fresh = Fresh::new();
    if let Some(output) = run("mandoc", &["-Tlint", "-Wwarning", &fresh.path("haul.1")]) {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
}

#[test]
fn the_shells_accept_their_completions() {
    let fresh = Fresh::new();
    accepts("bash", &["-n", &fresh.path("haul.bash")]);
    accepts("zsh", &["-n", &fresh.path("_haul")]);
    accepts("fish", &["--no-execute", &fresh.path("haul.fish")]);
}

/// What bash offers for the words; the last one is being typed.
fn bash_offers(fresh: &Fresh, words: &[&str]) -> Option<Vec<String>> {
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "compopt() {{ :; }}; source {}; COMP_WORDS=({}); COMP_CWORD={}; _haul; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        fresh.path("haul.bash"),
        words.join(" "),
        words.len() - 1
    );
    let output = run("bash", &["-c", &script])?;
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[test]
fn bash_completes_options_and_their_words() {
    let fresh = Fresh::new();
    for (words, offered) in [
        (&["haul", "--ref"][..], &["--reflink", "--reflink="][..]),
        (&["haul", "--sp"], &["--sparse="]),
        (&["haul", "--sparse", "="], &["never", "auto", "always"]),
        (&["haul", "--sparse", "=", "a"], &["auto", "always"]),
        (&["haul", "--engine", "=", "r"], &["reference", "read-write"]),
        (&["haul", "--preserve", "=", "mode,t"], &["mode,timestamps"]),
        (&["haul", "--", "--sp"], &[]),
        (&["haul", "a"], &[]),
    ] {
        let Some(offers) = bash_offers(&fresh, words) else { return };
        assert_eq!(offers, offered, "{words:?}");
    }
}

#[test]
fn fish_completes_options_and_their_words() {
    let fresh = Fresh::new();
    for (line, offered) in [
        ("haul --refl", &["--reflink", "--reflink="][..]),
        ("haul --sparse=a", &["--sparse=always", "--sparse=auto"]),
        ("haul --reflink=n", &["--reflink=never"]),
        ("haul --preserve=mode,t", &["--preserve=mode,timestamps"]),
    ] {
        let script = format!("source {}; complete -C '{line}'", fresh.path("haul.fish"));
        let Some(output) = run("fish", &["--no-config", "-c", &script]) else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut offers: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        offers.sort_unstable();
        assert_eq!(offers, offered, "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The page of haul-mpi, which is written by hand: most of it is that of haul.
fn page_of_haul_mpi() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/man/haul-mpi.1")
        .to_str()
        .expect("a path in UTF-8")
        .to_owned()
}

#[test]
fn mandoc_and_man_have_no_complaint_about_the_page_of_haul_mpi() {
    let page = page_of_haul_mpi();
    if let Some(output) = run("mandoc", &["-Tlint", "-Wwarning", &page]) {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
    accepts("man", &["--warnings=w", "--local-file", &page]);
}

#[test]
fn the_page_of_haul_mpi_names_only_options_that_there_are() {
    // Its own, and one of Slurm's.
    let others = ["chunk", "each", "ntasks-per-node"];
    let text = fs::read_to_string(page_of_haul_mpi()).expect("the page is committed").replace("\\-", "-");
    let known = fs::read_to_string(folder().join("haul.1")).expect("the page of haul is committed").replace("\\-", "-");
    let mut options = 0;
    for part in text.split("--").skip(1) {
        let option: String = part.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '-').collect();
        options += 1;
        assert!(others.contains(&option.as_str()) || known.contains(&format!("\\fB--{option}\\fR")), "--{option}");
    }
    assert!(options > 10, "the options of the page were not found");
}

#[test]
fn the_linker_puts_what_a_start_calls_side_by_side() {
    let program = env!("CARGO_BIN_EXE_haul");
    let Some(sections) = run("readelf", &["--section-headers", "--wide", program]) else { return };
    let sections = String::from_utf8(sections.stdout).expect("names of sections are ASCII");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    // Name, type, address, offset, size, behind the number in brackets.
    let fields =
        sections.lines().filter_map(|line| line.split_once(']')).map(|(_, rest)| rest.split_whitespace().collect());
    let mut ordered = fields.filter(|fields: &Vec<&str>| fields.first() == Some(&".text.start"));
    let Some(found) = ordered.next() else { return skip("this linker takes no script") };
    let (begin, end) = (number(found[2]), number(found[2]) + number(found[4]));
    let Some(symbols) = run("nm", &["--demangle", program]) else { return };
    let symbols = String::from_utf8(symbols.stdout).expect("names of functions are UTF-8");
    let main = symbols.lines().find(|line| line.ends_with(" haul::app::main")).expect("the function is there");
    let main = number(main.split(' ').next().expect("its address"));
    assert!((begin..end).contains(&main), "{main:x} is not in {begin:x} to {end:x}");
}
