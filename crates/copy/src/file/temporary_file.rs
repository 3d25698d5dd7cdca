//! Files that are made under another name and get theirs when they are whole (`--atomic`, `--durable=file`).
//!
//! The other name is in the directory of the final one, so that a rename puts one in the place of the other in one step.
//! Everything in between is done by the code that makes any other file, which sees a new file in that directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_sys::Errno;
use haul_sys::inode::{Inode, Kind};
use haul_sys::rustix::fs::{OFlags, readlinkat};
use haul_sys::rustix::io::fcntl_dupfd_cloexec;

use crate::attributes::{ReplacedFile, SPECIAL_RIGHTS};
use crate::context::{RunContext, Worker};
use crate::decide::{Existing, copied_as_regular};
use crate::error::{Error, What};
use crate::file::open::open_without_waiting;
use crate::finish::{naming, resume, undo};
use crate::journal::Fingerprint;
use crate::meta::{NewEntries, Object};
use crate::plan::{LinkMode, Reflink, SmartCopy, Verify};
use crate::progress::{Partial, has_settled};
use crate::publish::ready::{ParentDirectory, Ready};
use crate::publish::temporary::TemporaryNames;
use crate::report::{Reported, Reporter};
use crate::walk::{Identity, Spot, open_directory};
use crate::work::entry::{Adopted, DestState, FileOutcome, Subject, Unfinished, may_write};

/// Both for the owner.
const READ_AND_WRITE: u32 = 0o600;

/// As many as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a file is made, and where it goes.
pub(crate) struct TemporaryFile {
    /// The directory of both, where that is not the one of the destination: behind a symbolic link.
    pub dir: Option<OwnedFd>,
    /// The temporary name.
    pub name: OsString,
    /// The name that it gets.
    last: OsString,
    /// Something stands there.
    replaces: bool,
}

impl TemporaryFile {
    pub(crate) fn spot<'s>(&'s self, dest: Spot<'s>, name: &'s OsStr) -> Spot<'s> {
        match &self.dir {
            Some(dir) => Spot::new(dir.as_fd(), name, dest.path),
            None => dest.beside(name, dest.path),
        }
    }
}

/// Chooses the name that a file is made under; how its destination is then, and what an earlier run has left of it.
pub(crate) fn begin(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    subject: &Subject<'_>,
    state: &DestState,
) -> Result<(TemporaryFile, DestState, Unfinished), Reported> {
    let chosen = choose(subject.dest, state, cx.plan.write_through_dangling_link, cx.temporary_names());
    let mut temporary = report.check(chosen, What::CannotCreateRegular, subject.dest.path)?;
    let last = temporary.spot(subject.dest, &temporary.last);
    let old = state.existing.map(|existing| existing.target);
    let replaced = old.map(|old| hold_replaced(cx, last, old)).transpose().map_err(|error| report.fail(error))?;
    // Behind a link it is made in a directory of which nothing is known.
    let entries = if temporary.dir.is_some() { NewEntries::UNKNOWN } else { state.entries };
    if let Some(dir) = &temporary.dir {
        resume::tidy_behind_link(cx, dir.as_fd());
    }
    let mut unfinished = Unfinished::default();
    name_for_resuming(cx, subject, &mut temporary, &mut unfinished);
    let new = DestState { new: true, temporary: true, entries, replaced, ..DestState::default() };
    Ok((temporary, new, unfinished))
}

/// With `--resume`, gives the file a name that the next run will know, or takes up what an earlier one has left.
fn name_for_resuming(
    cx: RunContext<'_>,
    subject: &Subject<'_>,
    temporary: &mut TemporaryFile,
    unfinished: &mut Unfinished,
) {
    let Some(progress) = cx.services.progress.get() else { return };
    if subject.inode.kind == Kind::Regular && progress.is_worth_checkpoints(&subject.inode) {
        let home = temporary.spot(subject.dest, &temporary.last).dir().and_then(Inode::of);
        unfinished.home = home.ok().map(|home| Fingerprint::of_name(&home, &temporary.last));
    }
    let source = Fingerprint::of_source(&subject.inode);
    let beginning = unfinished.home.map(|home| Fingerprint::of_beginning(source, home));
    // What shares extents is done at once, and an image is not copied from its beginning to its end.
    let by_parts = cx.plan.data.reflink != Reflink::Always && cx.plan.smart == SmartCopy::Off;
    let partial = beginning.filter(|_| by_parts && has_settled(&subject.inode)).and_then(|key| progress.partial(key));
    if let Some(partial) = partial {
        let name = progress.names.with_number(partial.number);
        let owner = if cx.plan.preserve.ownership { subject.inode.user } else { cx.services.caller.user };
        let owners = [cx.services.caller.user, owner];
        let found = open_partial(temporary.spot(subject.dest, &name), &partial, owners, cx.plan.verify);
        if let Some((fd, inode)) = found {
            progress.adopt(partial.number);
            unfinished.number = Some(partial.number);
            unfinished.adopted = Some(Adopted { fd, inode, prefix: partial.prefix, source });
            // Whatever comes now, unless it is known to be of no use any more.
            unfinished.left = true;
            temporary.name = name;
            return;
        }
    }
    let number = progress.names.number();
    unfinished.number = Some(number);
    temporary.name = progress.names.with_number(number);
}

/// Whether it is made under another name first: because the plan asks for that, or because what stands there may be the
/// source. Not where an existing file is no regular one, which is written into, as
/// FIFOs and devices are; nor where only attributes are set.
pub(crate) fn is_needed(cx: RunContext<'_>, subject: &Subject<'_>, state: &DestState) -> bool {
    let plan = cx.plan;
    let regular = |existing: &Existing| existing.target.kind == Kind::Regular;
    let doubtful = match state.identity {
        Identity::Two => false,
        Identity::Doubtful => true,
        // What is asked of the bytes that are moved needs some.
        Identity::DoubtfulAndFixed => state.existing.is_none() || plan.checksum.is_some(),
    };
    (plan.uses_temporary_file() || doubtful)
        && plan.link == LinkMode::Copy
        && !(plan.attributes_only && state.existing.is_some())
        && state
            .existing
            .as_ref()
            .is_none_or(|existing| regular(existing) && copied_as_regular(subject.inode.kind, cx.plan))
}

/// Takes hold of a file that is going to be replaced, where writing into it would have been allowed.
fn hold_replaced(cx: RunContext<'_>, spot: Spot<'_>, old: Inode) -> Result<ReplacedFile, Error> {
    let error = Error::new(What::CannotCreateRegular, spot.path);
    if !cx.plan.force && !cx.services.caller.privileged() && !may_write(spot) {
        return Err(error.errno(Errno::ACCESS));
    }
    let held = spot.open_path().and_then(|fd| Ok((Inode::of(fd.as_fd())?, fd)));
    match held {
        Ok((inode, fd)) if inode.is_same_file_as(&old) => Ok(ReplacedFile { fd, inode }),
        Ok(_) => Err(Error::new(What::ReplacedWhileCopied, spot.path)),
        Err(errno) => Err(error.errno(errno)),
    }
}

/// The file is whole: gives it its name, or leaves that until it is on the device.
pub(crate) fn publish_or_wait(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    temporary: &TemporaryFile,
    spot: Spot<'_>,
    subject: &Subject<'_>,
    outcome: FileOutcome,
) -> bool {
    let FileOutcome { checked, unsynced, source, .. } = outcome;
    if let Some(mismatch) = checked.mismatch {
        return undo::set_aside(&mut worker.report, spot, &temporary.last, mismatch);
    }
    let Some((file, id)) = unsynced else {
        let published = naming::publish(&mut worker.report, spot, &temporary.last, temporary.replaces);
        if published {
            naming::tell_digest(&worker.report, spot.path, &checked);
        }
        return published;
    };
    let parent = match (&temporary.dir, subject.sides) {
        (None, Some(sides)) => Ok(ParentDirectory::Shared(Arc::clone(sides))),
        _ => spot
            .dir()
            .and_then(|dir| fcntl_dupfd_cloexec(dir, 0))
            .map(|dir| ParentDirectory::Own(dir, spot.path.to_owned())),
    };
    let parent = match parent {
        Ok(parent) => parent,
        Err(errno) => {
            let error = Error::new(What::CannotPublish, spot.path).errno(errno);
            return undo::withdraw(&mut worker.report, spot, error);
        }
    };
    naming::wait_for_device(
        cx,
        worker,
        Ready {
            file,
            id,
            size: subject.inode.size,
            checked,
            parent,
            name: temporary.name.clone(),
            last: temporary.last.clone(),
            replaces: temporary.replaces,
            source,
        },
    );
    true
}

/// Opens what an earlier run has left of a file, if it is still that.
fn open_partial(spot: Spot<'_>, partial: &Partial, owners: [u32; 2], verify: Verify) -> Option<(OwnedFd, Inode)> {
    let held = spot.open_path().ok()?;
    let inode = Inode::of(held.as_fd()).ok()?;
    // Without a birth the number alone tells little: somebody else may have made a file that got it.
    let ours = inode.kind == Kind::Regular && inode.links == 1 && owners.contains(&inode.user);
    if !ours || Fingerprint::of_file(&inode) != partial.file || inode.size < partial.prefix {
        return None;
    }
    let object = Object { fd: held.as_fd(), path_only: true };
    if inode.permissions & READ_AND_WRITE != READ_AND_WRITE || inode.permissions & SPECIAL_RIGHTS != 0 {
        // It was whole and had its mode already, by which others than root could not open it, or might run it.
        object.set_mode(inode.permissions & !SPECIAL_RIGHTS | READ_AND_WRITE).ok()?;
    }
    let access = if verify == Verify::Off { OFlags::WRONLY } else { OFlags::RDWR };
    let opened = open_without_waiting(spot, access | OFlags::NOFOLLOW).ok()?;
    let now = Inode::of(opened.as_fd()).ok()?;
    now.is_same_file_as(&inode).then_some((opened, inode))
}

/// Finds the place behind the destination: behind symbolic links, if it is one that is written through.
fn choose(
    dest: Spot<'_>,
    state: &DestState,
    through_dangling: bool,
    names: &TemporaryNames,
) -> Result<TemporaryFile, Errno> {
    // As open(2) says of a name that ends in a slash where no directory is to be made.
    if dest.name.as_bytes().last() == Some(&b'/') {
        return Err(Errno::NOTDIR);
    }
    let through_link = state.existing.is_some_and(|existing| existing.entry.kind == Kind::SymbolicLink);
    let dangling = through_dangling && state.existing.is_none() && !state.replaces && dest.read_link().is_ok();
    let (dir, last) = match through_link || dangling {
        true => follow(dest).map(|(dir, last)| (Some(dir), last))?,
        false => (None, dest.name.to_owned()),
    };
    let replaces = state.existing.is_some() || state.replaces;
    Ok(TemporaryFile { dir, name: names.another(), last, replaces })
}

/// The directory and the name that symbolic links lead to, found as the kernel finds them.
fn follow(dest: Spot<'_>) -> Result<(OwnedFd, OsString), Errno> {
    let mut dir = fcntl_dupfd_cloexec(dest.dir()?, 0)?;
    let mut name = dest.name.to_owned();
    for _ in 0..MOST_LINKS {
        let text = match readlinkat(&dir, name.as_os_str(), Vec::new()) {
            Ok(text) => text.into_bytes(),
            // What is no link, or is not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok((dir, name)),
            Err(errno) => return Err(errno),
        };
        let path = Path::new(OsStr::from_bytes(&text));
        let last = path.file_name().ok_or(Errno::ISDIR)?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        dir = open_directory(&dir, above.unwrap_or(Path::new(".")))?;
        name = last.to_owned();
    }
    Err(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::context::test_support::{Bench, Ran, SETTLED, settled_dir, tree};
    use crate::file::regular::make_file;
    use crate::journal::Record;
    use crate::plan::{Checksum, Durable, Plan};

    fn atomic() -> Plan {
        Plan { atomic: true, ..Plan::default() }
    }

    fn is_needed_for_b(bench: &Bench, identity: Identity) -> bool {
        let (subject, state) = (bench.subject("a", "b"), DestState { identity, ..bench.state("b") });
        bench.run(|cx, _| is_needed(cx, &subject, &state)).value
    }

    #[test]
    fn the_plan_decides_about_temporary_names() {
        let plain = Plan::default;
        for (plan, needed) in [
            (plain(), false),
            (atomic(), true),
            (Plan { durable: Durable::Flush, ..plain() }, false),
            (Plan { durable: Durable::File, ..plain() }, true),
            (Plan { verify: Verify::Read, ..plain() }, true),
            (Plan { resume: true, ..plain() }, true),
            (Plan { link: LinkMode::Hard, ..atomic() }, false),
        ] {
            let shown = format!("{plan:?}");
            let bench = Bench::new(plan).source("a", "new");
            assert_eq!(is_needed_for_b(&bench, Identity::Two), needed, "{shown}");
            assert_eq!(is_needed_for_b(&bench.dest("b", "old"), Identity::Two), needed, "{shown}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_written_into() {
        let bench = Bench::new(atomic()).source("a", "new");
        bench.make_fifo("b");
        assert!(!is_needed_for_b(&bench, Identity::Two));
    }

    #[test]
    fn attributes_alone_are_set_in_place() {
        let bench = Bench::new(Plan { attributes_only: true, ..atomic() }).source("a", "new");
        assert!(is_needed_for_b(&bench, Identity::Two));
        assert!(!is_needed_for_b(&bench.dest("b", "old"), Identity::Two));
    }

    #[test]
    fn what_may_be_the_source_is_replaced_and_not_overwritten() {
        let mut bench = Bench::new(Plan::default()).source("a", "the same").dest("b", "the same");
        assert!(is_needed_for_b(&bench, Identity::Doubtful));
        assert!(!is_needed_for_b(&bench, Identity::DoubtfulAndFixed), "no other file can take its place");
        bench.plan.checksum = Some(Checksum::Blake3);
        assert!(is_needed_for_b(&bench, Identity::DoubtfulAndFixed), "there must be bytes to hash");
    }

    /// Copies `a` to `b`, and gives it its name.
    fn make_b(bench: &Bench) -> Ran<()> {
        let mut subject = bench.subject("a", "b");
        make(bench, &mut subject)
    }

    fn make(bench: &Bench, subject: &mut Subject<'_>) -> Ran<()> {
        let state = bench.state("b");
        bench.run(|cx, worker| {
            // The reports and the directory tell how it went.
            make_file(cx, worker, subject, &state).ok();
            naming::give_names(cx, worker);
        })
    }

    /// A name that leads to `sub/real` by two links.
    fn with_links(plan: Plan) -> Bench {
        let bench = Bench::new(plan).source("a", "new").link("b", "sub/link");
        fs::create_dir(bench.dest_path("sub")).unwrap();
        bench.link("sub/link", "real")
    }

    #[test]
    fn a_file_behind_links_is_replaced_in_its_own_directory() {
        let mut bench = with_links(atomic()).dest("sub/real", "old");
        bench.before_data = Some(Box::new(|path| {
            assert_eq!(tree(&path.join("dest/sub")), ["(temporary): ", "link -> real", "real: old"]);
        }));
        let ran = make_b(&bench);
        ran.says(&[]);
        assert_eq!((ran.moves, bench.tree()), (1, vec!["b -> sub/link".into(), "sub/".into()]));
        assert_eq!(tree(&bench.dest_path("sub")), ["link -> real", "real: new"]);
    }

    #[test]
    fn a_file_behind_dangling_links_is_made_if_asked() {
        let plan = Plan { write_through_dangling_link: true, ..atomic() };
        let bench = with_links(plan);
        make_b(&bench).says(&[]);
        assert_eq!(tree(&bench.dest_path("sub")), ["link -> real", "real: new"]);
        assert_eq!(bench.tree(), ["b -> sub/link", "sub/"]);
    }

    #[test]
    fn a_dangling_link_is_not_replaced() {
        let bench = with_links(atomic());
        make_b(&bench).says(&[r#"error: not writing through dangling symlink "b""#]);
        assert_eq!(bench.tree(), ["b -> sub/link", "sub/"]);
        assert_eq!(tree(&bench.dest_path("sub")), ["link -> real"]);
    }

    #[test]
    fn a_loop_of_links_has_no_end() {
        let plan = Plan { write_through_dangling_link: true, ..atomic() };
        let bench = Bench::new(plan).source("a", "new").link("b", "c").link("c", "b");
        make_b(&bench).says(&[&format!(r#"error: cannot create regular file "b": {}"#, Errno::LOOP)]);
        assert_eq!(bench.tree(), ["b -> c", "c -> b"]);
    }

    #[test]
    fn a_name_that_ends_in_a_slash_is_no_file() {
        let bench = Bench::new(atomic()).source("a", "new");
        let (mut subject, state) = (bench.subject("a", "b/"), bench.state("b/"));
        let ran = bench.run(|cx, worker| make_file(cx, worker, &mut subject, &state).is_err());
        ran.says(&[&format!(r#"error: cannot create regular file "b/": {}"#, Errno::NOTDIR)]);
        assert!(ran.value && bench.tree().is_empty());
    }

    #[test]
    fn an_old_file_that_was_replaced_stays_as_it_is() {
        let bench = Bench::new(atomic()).source("a", "new").dest("b", "old").dest("c", "theirs");
        let (mut subject, state) = (bench.subject("a", "b"), bench.state("b"));
        fs::rename(bench.dest_path("c"), bench.dest_path("b")).unwrap();
        let ran = bench.run(|cx, worker| make_file(cx, worker, &mut subject, &state).is_err());
        ran.says(&[r#"error: skipping file "b", as it was replaced while being copied"#]);
        assert_eq!(bench.tree(), ["b: theirs"]);
    }

    fn settled(dir: &File) -> Spot<'_> {
        Spot::new(dir.as_fd(), SETTLED.as_ref(), Path::new("a"))
    }

    fn settled_contents() -> Vec<u8> {
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(SETTLED)).unwrap()
    }

    /// An earlier run has copied the first bytes of this source, to be `b`. They are not those of the source, so that one
    /// sees whether they are used. Returns the path of what it has left.
    fn interrupted(bench: &mut Bench, source: Fingerprint) -> std::path::PathBuf {
        bench.open_journal();
        let progress = bench.services.progress.get().unwrap();
        let number = progress.names.number();
        let name = progress.names.with_number(number);
        let path = bench.dest_path(name.to_str().unwrap());
        fs::write(&path, "left").unwrap();
        let home = Fingerprint::of_name(&Inode::of(bench.to("b").dir().unwrap()).unwrap(), OsStr::new("b"));
        let record = Record::Partial {
            source: Fingerprint::of_beginning(source, home),
            file: Fingerprint::of_file(&bench.to(name.to_str().unwrap()).inode().unwrap()),
            number,
            prefix: 4,
        };
        progress.journal.append(&[record]).unwrap();
        path
    }

    fn resume() -> Plan {
        Plan { resume: true, durable: Durable::File, ..Plan::default() }
    }

    /// Copies the settled file to `b` in the next run; how many bytes of the copy were there, and whether they are in it.
    fn make_b_in_next_run(bench: &mut Bench) -> (u64, bool) {
        bench.open_journal();
        let dir = settled_dir();
        let ran = make(bench, &mut bench.subject_of(settled(&dir), "b"));
        ran.says(&[]);
        let (made, expected) = (fs::read(bench.dest_path("b")).unwrap(), settled_contents());
        assert_eq!((made.len(), &made[4..]), (expected.len(), &expected[4..]));
        (ran.stats.resumed_bytes, made.starts_with(b"left"))
    }

    #[test]
    fn the_next_run_goes_on_with_a_beginning() {
        let (mut bench, dir) = (Bench::new(resume()), settled_dir());
        interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
        assert_eq!(make_b_in_next_run(&mut bench), (4, true));
        assert_eq!(bench.tree().len(), 1);
    }

    #[test]
    fn a_beginning_loses_its_special_rights() {
        let (mut bench, dir) = (Bench::new(resume()), settled_dir());
        let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
        fs::set_permissions(left, Permissions::from_mode(0o4555)).unwrap();
        assert_eq!(make_b_in_next_run(&mut bench), (4, true));
        assert_eq!(bench.to("b").inode().unwrap().permissions, 0o555);
    }

    #[test]
    fn a_beginning_of_another_source_is_not_used() {
        let mut bench = Bench::new(resume()).source("other", "another");
        let other = Fingerprint::of_source(&bench.from("other").inode().unwrap());
        interrupted(&mut bench, other);
        assert_eq!(make_b_in_next_run(&mut bench), (0, false));
    }

    #[test]
    fn a_beginning_that_lost_its_end_is_not_used() {
        let (mut bench, dir) = (Bench::new(resume()), settled_dir());
        let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
        File::options().write(true).open(left).unwrap().set_len(3).unwrap();
        assert_eq!(make_b_in_next_run(&mut bench), (0, false));
    }

    #[test]
    fn a_beginning_that_is_another_file_is_not_used() {
        let (mut bench, dir) = (Bench::new(resume()), settled_dir());
        let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
        // The old one stays, so that the new one gets another number.
        fs::rename(&left, bench.dest_path("old")).unwrap();
        fs::write(left, "left").unwrap();
        assert_eq!(make_b_in_next_run(&mut bench), (0, false));
    }

    #[test]
    fn a_beginning_with_a_second_name_is_not_used() {
        let (mut bench, dir) = (Bench::new(resume()), settled_dir());
        let left = interrupted(&mut bench, Fingerprint::of_source(&settled(&dir).inode().unwrap()));
        fs::hard_link(left, bench.dest_path("somebody's")).unwrap();
        assert_eq!(make_b_in_next_run(&mut bench), (0, false));
        assert!(bench.tree().contains(&"somebody's: left".to_owned()));
    }
}
