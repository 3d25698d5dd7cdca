//! Tasks around the code of haul: tests, layers, virtual machines, benchmarks, fuzzing, packages. `cargo xtask help`
//! lists them.
//!
//! It **knows** the tools of a developer's machine and the rules of the code (`layers`). It **must not know** how haul
//! copies: it builds and starts programs. Of our crates it imports haul-measure and haul-sys, and haul-testbed in its
//! tests.
#![forbid(unsafe_code)]

mod apt;
mod bench;
mod book;
mod counts;
mod deny;
mod dist;
mod fuzz;
mod layers;
mod leftovers;
mod mpi;
mod package;
mod packages;
mod picture;
mod prove;
mod python;
mod sanitize;
mod shell;
mod start_order;
mod test;
mod tools;
mod vm;

use std::process::ExitCode;

use haul_measure::{cache, memory, workspace};

const HELP: &str = "\
Usage: cargo xtask TASK

  test [--quick]   everything that CI checks: installs the Debian packages that the tests need (as root or by sudo), then
                   format, clippy, layers, dependencies, documentation, book, all tests, what the tests left behind, package,
                   dist --trial, and the quick cases of vm. --quick skips packages, dependencies, documentation, book, package,
                   dist and vm.
                   haul-mpi is built with Open MPI and with MPICH, and skipped, with a message, where one of them is
                   missing
  layers           which file imports which, which modules do I/O, what is public for nobody, where unsafe code is, how long
                   files and functions are
  fuzz SECONDS [TARGET...]
                   every parser of disk images, or those named, under libFuzzer for so long each; builds its seeds from real
                   images (as root), needs a nightly toolchain and a C++ compiler; fails if one crashes
  vm [--only CASE,...] [--kernel NAME,...] [--haul PROGRAM] [--list]
                   haul in virtual machines: NFS 4.2, CIFS, failing devices, older kernels, haul-mpi and shards on two
                   clients of a server; fetches Debian's packages for them once, prints a table of what was found,
                   fails if anything was wrong; --list names the cases; with --only, cases that measure do so at
                   length, and their reports are printed; with --haul, the guests run that build of haul
  vm pair [KERNEL KERNEL]
                   haul-lab mapped-write in the guests of two kernels (5.10 and 6.12, or those named), on equal disks;
                   keeps both results, and prints the second compared with the first
  sanitize [address] [thread] [miri]
                   tests of the crates with unsafe code and of what calls them from several threads under these tools, or
                   those named (by default address and miri), and copies by haul itself; needs a nightly toolchain with
                   rust-src and miri; fails if one finds something
  package          the packages that cargo publishes: each built from its own archive, their unit tests run from them
  prove [--only PART,...] [--missing] [--quick] [--into FILE] [--list]
                   all that the trust in haul rests on, at full length, over night: faults, power cuts, kills, swaps,
                   agreement with cp, fuzzing, virtual machines, benchmarks; writes docs/proof.md, or FILE, with figures, dates
                   and versions, anew after each part; with --missing only parts that have not passed yet; with --quick each
                   part is as short as in the tests, and the page goes to target/prove
  picture          docs/copy.svg, from a real copy on a terminal
  start-order      crates/cli/start.ld: the functions that a start of haul calls, by valgrind, for the linker to put side by side
  python [--interpreter PROGRAM]
                   the Python package: its wheel, installed into a fresh environment, and its tests; with the interpreter
                   of the system, or another one, which may be free-threaded
  book             the documentation as a site, in target/book/book; fails if a link leads nowhere
  dist [--check | --trial]
                   what people install, in dist/: archives with static binaries for x86_64 and aarch64, packages for Debian
                   and RPM, SHA256SUMS; the same bytes from the same commit in any folder. --check installs, uses and
                   removes each where nothing else is, and makes all again elsewhere; --trial does so with binaries that are
                   optimized less, in the target directory
  bench single-file [--size SIZE] [--runs N] [--engine NAME,...] [--place NAME,...]
                   one file: haul against cp, on the filesystem of the temporary directory and, as root, on
                   ext4, XFS and btrfs in loop images; prints tables
  bench peers [--only WORKLOAD,...] [--programs NAME,...] [--engine NAME,...] [--with OPTION,...] [--runs N]
              [--scale FACTOR] [--dir DIR] [--space SIZE] [--settle SECONDS] [--timeout SECONDS] [--haul PROGRAM]
              [--before PROGRAM] [--json FILE] [--from FILE [--svg FILE]] [--profile] [--list]
                   haul against every other copier, which it installs, in every workload of docs/performance.md;
                   checks every copy, prints tables; --list names workloads and programs, --from shows saved results, --svg draws them,
                   --with=durable times haul --durable, too, --before another build of haul
  bench images [--size SIZE] [--runs N] [--dir DIR] [--image FILE] [--json FILE] [--haul PROGRAM]
               [--only cold|warm] [--programs NAME,...] [--dirty]
                   smartcp against other programs that copy disk images; mounts and compares every copy, and prints
                   the tables of docs/smart.md; --image keeps the image and --json the results for the next time,
                   --dirty shows what copies of mounted filesystems lose
  bench scale [--place tmpfs,dir,ext4,xfs] [--only many,one,large,many-cold,one-cold,large-cold] [--runs N]
              [--scale FACTOR] [--size SIZE] [--dir DIR] [--space SIZE] [--settle SECONDS] [--timeout SECONDS]
              [--haul PROGRAM] [--json FILE] [--svg FILE] [--profile]
               what haul gains by threads, from one to twice as many as there are cores, and how near its own choice is to
               the best; --svg draws the curves
  bench slow-disk [--size SIZE] [--runs N] [--haul PROGRAM]
               a file copied to a disk that writes 20 MB/s, by cp, cp with a sync, and haul: until each returns, until
               the disk is unmounted after that, and how long another program waits for its writes meanwhile; as root
  help             this
";

/// Runs the task named by the arguments and turns its answer into an exit status.
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match args.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[][..]),
    };
    let asks_for_help = rest.iter().any(|arg| arg == "--help" || arg == "-h");
    let task = if asks_for_help { "help" } else { task };
    let answer = match task {
        "test" => test::run(rest),
        "layers" => no_arguments(rest).and_then(|()| layers::run()),
        "book" => no_arguments(rest).and_then(|()| book::run()),
        "picture" => no_arguments(rest).and_then(|()| picture::run()),
        "prove" => prove::run(rest),
        "python" => python::run(rest),
        "start-order" => no_arguments(rest).and_then(|()| start_order::run()),
        "package" => no_arguments(rest).and_then(|()| package::run()),
        "dist" => dist::run(rest),
        "bench" => bench::run(rest),
        "fuzz" => fuzz::run(rest),
        "vm" => vm::run(rest),
        "sanitize" => sanitize::run(rest),
        // Not for people: processes of their own for `bench`, since their memory must be gone afterwards.
        memory::PART => memory::touch(rest.first().map_or("", String::as_str)),
        "peers-make" => bench::peers::sources::process(rest),
        cache::PART => cache::read(rest.first().map_or("", String::as_str).as_ref()),
        "compare-copies" => bench::compare::process(rest),
        workspace::PART => bench::surroundings::guard(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("no task {other:?}\n\n{HELP}")),
    };
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn no_arguments(rest: &[String]) -> shell::Result {
    match rest.first() {
        None => Ok(()),
        Some(extra) => Err(format!("unexpected argument {extra:?}")),
    }
}
