//! Everything that is neither a directory nor has data: symbolic links, FIFOs, sockets and device nodes.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use haul_sys::Errno;
use haul_sys::inode::{FileId, Inode, Kind};
use haul_sys::rustix::fs::{AtFlags, CWD, FileType, OFlags};

use crate::attributes::{Keep, side};
use crate::context::Worker;
use crate::error::{Error, What};
use crate::meta::NewEntries;
use crate::plan::{LinkMode, Update};
use crate::publish::replace;
use crate::report::Reported;
use crate::walk::Spot;
use crate::work::entry::{DestState, FileOutcome, Subject};

/// Makes a symbolic link that leads to the source (`-s`).
pub(crate) fn make_symbolic_link_to_source(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<Option<FileId>, Reported> {
    let (source, dest) = (subject.source, subject.dest);
    if let Some(error) = relative_link_elsewhere(source, dest) {
        return Err(worker.report.fail(error));
    }
    let names = worker.cx.names_if(worker.cx.plan.force || state.replaces);
    replace::symbolic_link(source.path.as_os_str(), dest, names).map_err(|errno| {
        worker.report.fail(Error::new(What::CannotCreateLinkTo, dest.path).and(source.path).errno(errno))
    })?;
    worker.report.stats.symbolic_links += 1;
    finish_special(worker, subject, state, (true, NewEntries::UNKNOWN)).map(|outcome| outcome.id)
}

/// Makes the node that the source is.
pub(crate) fn make_special(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<FileOutcome, Reported> {
    let (source, dest) = (subject.source, subject.dest);
    let kind = match subject.inode.kind {
        Kind::SymbolicLink => return copy_symbolic_link(worker, subject, state),
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharacterDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::Regular | Kind::Directory | Kind::Unknown => {
            return Err(worker.report.fail(Error::new(What::UnknownType, source.path)));
        }
    };
    let mode = worker.cx.creation_mode(subject.inode.kind, &subject.inode, &state.entries);
    let made = worker.cx.services.space_gate.with_space(|| dest.make_node(kind, mode, subject.inode.node));
    worker.report.check(made, cannot_make(subject.inode.kind), dest.path)?;
    worker.report.stats.special += 1;
    finish_special(worker, subject, state, (state.new, state.entries))
}

/// What is said where something of this kind cannot be made.
pub(crate) fn cannot_make(kind: Kind) -> What {
    match kind {
        Kind::SymbolicLink => What::CannotCreateLink,
        Kind::Fifo => What::CannotCreateFifo,
        _ => What::CannotCreateSpecial,
    }
}

fn copy_symbolic_link(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<FileOutcome, Reported> {
    let cx = worker.cx;
    let (source, dest) = (subject.source, subject.dest);
    let text = worker.report.check(source.read_link(), What::CannotReadLink, source.path)?;
    match cx.services.space_gate.with_space(|| replace::symbolic_link(&text, dest, cx.names_if(cx.plan.force))) {
        // With -u a link that leads to the same place already is as new as can be.
        Err(Errno::EXIST)
            if cx.plan.update == Update::Older && !state.new && dest.read_link().is_ok_and(|old| old == text) => {}
        made => _ = worker.report.check(made, cannot_make(Kind::SymbolicLink), dest.path)?,
    }
    worker.report.stats.symbolic_links += 1;
    finish_special(worker, subject, state, (state.new, state.entries))
}

/// Attributes of a node or link that was just made, and which one it is. One that has no name yet may lack some.
fn finish_special(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
    (created, entries): (bool, NewEntries),
) -> Result<FileOutcome, Reported> {
    let dest = worker.report.check(held(subject.dest.open_path()), What::CannotStat, subject.dest.path)?;
    // What was just made has one name, or none where the filesystem counts no links; anything else was put there by somebody,
    // and is not ours to change.
    if created && (dest.0.links > 1 || matches!(dest.0.kind, Kind::Regular | Kind::Directory)) {
        return Err(worker.report.fail(Error::new(What::ReplacedWhileCopied, subject.dest.path)));
    }
    if created {
        state.note_made(|| Some(dest.0.id));
    }
    // A link that the next name would be looked at through is no file of its own.
    let id = (!(subject.follow() && dest.0.kind == Kind::SymbolicLink)).then_some(dest.0.id);
    let no_follow = if subject.follow() { OFlags::empty() } else { OFlags::NOFOLLOW };
    let (inode, source) = match held(subject.source.open(OFlags::PATH | no_follow, 0)) {
        // `-sf` has just replaced a link by one to itself, as cp does: nothing is left to keep attributes of.
        Err(Errno::LOOP) if worker.cx.plan.link == LinkMode::Symbolic => {
            return Ok(FileOutcome { id, ..FileOutcome::default() });
        }
        source => worker.report.check(source, What::CannotStat, subject.source.path)?,
    };
    if !inode.is_same_file_as(&subject.inode) {
        return Err(worker.report.fail(Error::new(What::ReplacedWhileCopied, subject.source.path)));
    }
    let kept = worker.cx.attributes().set_or_lose(
        &Keep {
            source: side(&source, true, &subject.inode, subject.source.path),
            dest: side(&dest.1, true, &dest.0, subject.dest.path),
            created,
            entries,
        },
        &mut worker.report,
    );
    match kept {
        Err(_) if !state.temporary => Err(Reported),
        kept => Ok(FileOutcome { id, loss: kept.err(), ..FileOutcome::default() }),
    }
}

pub(crate) fn make_hard_link_to_source(
    worker: &mut Worker<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<Option<FileId>, Reported> {
    let plan = worker.cx.plan;
    let flags = if subject.follow() { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
    let may_replace = plan.force || plan.overwrite == crate::plan::Overwrite::Ask || state.replaces;
    replace::hard_link(subject.source, subject.dest, flags, worker.cx.names_if(may_replace)).map_err(|errno| {
        worker.report.fail(Error::new(What::CannotHardLink, subject.dest.path).and(subject.source.path).errno(errno))
    })?;
    worker.report.stats.hard_links += 1;
    Ok(None)
}

fn held(opened: Result<OwnedFd, Errno>) -> Result<(Inode, OwnedFd), Errno> {
    let fd = opened?;
    Ok((Inode::of(fd.as_fd())?, fd))
}

/// Why no symbolic link is made that would not lead to the source, if it would not.
pub(crate) fn relative_link_elsewhere(source: Spot<'_>, dest: Spot<'_>) -> Option<Error> {
    let absolute = source.path.as_os_str().as_bytes().first() == Some(&b'/');
    (!absolute && !in_current_directory(dest)).then(|| Error::new(What::RelativeLinkElsewhere, dest.path))
}

/// Whether the destination's directory is the current one: only there a relative link leads where the source path does.
fn in_current_directory(dest: Spot<'_>) -> bool {
    let current = || Inode::at(CWD, OsStr::new("."));
    !dest.path.as_os_str().as_bytes().contains(&b'/')
        || match (crate::walk::directory_id(dest), current()) {
            (Some(dir), Ok(current)) => dir == current.id,
            // Making the link will say why that is unknown.
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::decide::Existing;
    use crate::plan::Plan;

    type Made = Result<Option<FileId>, Reported>;

    /// Makes `b` as `a` is.
    fn make_b(bench: &Bench) -> Ran<Made> {
        let (subject, state) = (bench.subject("a", "b"), bench.state("b"));
        bench.run(|worker| make_special(worker, &subject, &state).map(|outcome| outcome.id))
    }

    fn id(bench: &Bench, name: &str) -> Made {
        Ok(Some(bench.to(name).inode().unwrap().id))
    }

    /// `a` is a symbolic link.
    fn with_link(plan: Plan) -> Bench {
        let bench = Bench::new(plan);
        symlink("text", bench.source_path("a")).unwrap();
        bench
    }

    #[test]
    fn a_symbolic_link_gets_the_same_text() {
        let bench = with_link(Plan::default());
        let ran = make_b(&bench);
        ran.says(&[]);
        assert_eq!((&ran.value, ran.stats.symbolic_links), (&id(&bench, "b"), 1));
        assert_eq!(bench.tree(), ["b -> text"]);
    }

    #[test]
    fn a_link_replaces_what_stands_there_only_by_force() {
        for (force, after) in [(false, "b: old"), (true, "b -> text")] {
            let bench = with_link(Plan { force, ..Plan::default() }).dest("b", "old");
            let ran = make_b(&bench);
            assert_eq!((ran.value.is_ok(), ran.heard.len()), (force, usize::from(!force)));
            assert_eq!(bench.tree(), [after]);
        }
    }

    #[test]
    fn a_link_that_leads_there_already_is_new_enough() {
        for (text, is_new) in [("text", true), ("elsewhere", false)] {
            let bench = with_link(Plan { update: Update::Older, ..Plan::default() }).link("b", text);
            let entry = bench.to("b").inode().unwrap();
            let existing = Some(Box::new(Existing { entry, target: entry, is_dot: false }));
            let (subject, state) = (bench.subject("a", "b"), DestState { existing, ..DestState::default() });
            let ran = bench.run(|worker| make_special(worker, &subject, &state).map(|outcome| outcome.id));
            assert_eq!((ran.value.is_ok(), bench.tree()), (is_new, vec![format!("b -> {text}")]));
        }
    }

    #[test]
    fn a_fifo_and_a_socket_are_made_anew() {
        for kind in [FileType::Fifo, FileType::Socket] {
            let bench = Bench::new(Plan::default());
            let none = haul_sys::inode::DeviceNumber { major: 0, minor: 0 };
            bench.from("a").make_node(kind, 0o600, none).unwrap();
            let ran = make_b(&bench);
            ran.says(&[]);
            assert_eq!((&ran.value, ran.stats.special), (&id(&bench, "b"), 1));
            assert_eq!(bench.to("b").inode().unwrap().kind, bench.from("a").inode().unwrap().kind);
        }
    }

    #[test]
    fn a_fifo_does_not_take_a_name_that_is_taken() {
        let bench = Bench::new(Plan::default()).dest("b", "theirs");
        bench.make_fifo("fifo");
        fs::rename(bench.dest_path("fifo"), bench.source_path("a")).unwrap();
        make_b(&bench).says(&[&format!(r#"error: cannot create fifo "b": {}"#, Errno::EXIST)]);
        assert_eq!(bench.tree(), ["b: theirs"]);
    }

    fn link_to_source(bench: &Bench, subject: &Subject<'_>) -> Ran<Made> {
        let state = bench.state("b");
        bench.run(|worker| make_symbolic_link_to_source(worker, subject, &state))
    }

    #[test]
    fn a_relative_link_to_the_source_is_made_only_here() {
        let bench = Bench::new(Plan { link: LinkMode::Symbolic, ..Plan::default() }).source("a", "new");
        let elsewhere = bench.dest_path("b");
        let mut subject = bench.subject("a", "b");
        subject.dest.path = &elsewhere;
        let ran = link_to_source(&bench, &subject);
        assert_eq!((ran.value, ran.heard.len(), bench.tree()), (Err(Reported), 1, vec![]));
        assert!(ran.heard[0].ends_with("can make relative symbolic links only in current directory"));
        let whole_path = bench.source_path("a");
        subject.source.path = &whole_path;
        link_to_source(&bench, &subject).says(&[]);
        assert_eq!(bench.tree(), [format!("b -> {}", whole_path.display())]);
    }

    #[test]
    fn a_hard_link_to_the_source_is_the_same_file() {
        for (force, dest, linked) in [(false, None, true), (false, Some("old"), false), (true, Some("old"), true)] {
            let mut bench = Bench::new(Plan { force, ..Plan::default() }).source("a", "new");
            if let Some(old) = dest {
                bench = bench.dest("b", old);
            }
            let (subject, state) = (bench.subject("a", "b"), bench.state("b"));
            let ran = bench.run(|worker| make_hard_link_to_source(worker, &subject, &state));
            assert_eq!((ran.value.is_ok(), ran.stats.hard_links), (linked, u64::from(linked)));
            assert_eq!(bench.to("b").inode().unwrap().id == subject.inode.id, linked);
            assert_eq!(bench.tree().len(), 1);
        }
    }

    #[test]
    fn what_another_process_put_there_gets_no_attributes() {
        let bench = with_link(Plan::default()).dest("b", "theirs");
        let subject = bench.subject("a", "b");
        let (state, made) = (DestState::default(), (true, NewEntries::UNKNOWN));
        let ran = bench.run(|worker| finish_special(worker, &subject, &state, made).map(|outcome| outcome.id));
        ran.says(&[r#"error: skipping file "b", as it was replaced while being copied"#]);
        assert_eq!((ran.value, bench.tree()), (Err(Reported), vec!["b: theirs".into()]));
    }
}
