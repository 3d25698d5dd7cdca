//! Gives whole files their names: at once, or when they are on their device (`--durable=file`).

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use haul_io::transfer::STEP;
use haul_io::verify::{Checked, Finding, compare_with_device};
use haul_sys::Errno;
use haul_sys::inode::{DeviceNumber, FileId};
use haul_sys::rustix::fs::sync;
use haul_sys::rustix::io::retry_on_intr;

use crate::context::name_queue::{Item, MOST_FILES};
use crate::context::{RunContext, Worker};
use crate::error::{Error, What};
use crate::events::Event;
use crate::finish::{directories, resume, undo};
use crate::links::{Made, duplicate};
use crate::plan::Durable;
use crate::publish::filesystems::Synced;
use crate::publish::ready::{ParentDirectory, Ready};
use crate::publish::replace::{Replaced, link_to, rename_to_free};
use crate::report::Reporter;
use crate::schedule::limits::descriptors;
use crate::walk::{Spot, last_component};
use crate::work::directory::FullDirectory;
use crate::work::entry::Subject;

/// Finished files that another run would not know of if this one is killed.
const MOST_UNWRITTEN: usize = 64;

/// From this size in bytes on the device begins with a file as soon as it is whole.
const LARGE: u64 = 1 << 20;

/// Puts a whole file in its place. If that fails, it goes away again.
pub(crate) fn publish(report: &mut Reporter<'_>, spot: Spot<'_>, last: &OsStr, replaces: bool) -> bool {
    let renamed = if replaces { spot.rename_to(last) } else { rename_to_free(spot, last) };
    match renamed {
        Ok(()) => true,
        // The name was free as far as following links has shown.
        Err(Errno::EXIST) if spot.beside(last, spot.path).read_link().is_ok() => {
            undo::withdraw(report, spot, Error::new(What::DanglingLink, spot.path))
        }
        Err(errno) => {
            let what = if errno == Errno::EXIST { What::CannotCreateRegular } else { What::CannotPublish };
            undo::withdraw(report, spot, Error::new(what, spot.path).errno(errno))
        }
    }
}

/// Lets a whole file wait for its name.
pub(crate) fn wait_for_device(cx: RunContext<'_>, worker: &mut Worker<'_>, ready: Ready) {
    let size = ready.size;
    if size >= LARGE {
        // An error of the data is met when it is waited for.
        cx.kernel.write_back(ready.file.as_fd(), false).ok();
    }
    let ready = Arc::new(ready);
    if !cx.plan.resume || size < STEP {
        cx.session.partials.keep(&ready);
    }
    enqueue(cx, worker, Item::File(ready), size);
}

/// Gives everything its name if one of these is that of the entry: an operand that comes now must find it.
pub(crate) fn give_names_if_one_is(cx: RunContext<'_>, worker: &mut Worker<'_>, dest: Spot<'_>) {
    let name = last_component(dest.name);
    let waits = cx.services.durability.names.waiting.lock().items.iter().any(|item| match item {
        Item::File(ready) => ready.last == name,
        Item::Link { last, .. } => last == name,
        Item::Directory(_) => false,
    });
    if waits {
        give_names(cx, worker);
    }
}

/// Makes the entry another name of what was made, when that has its own.
pub(crate) fn link_later(
    cx: RunContext<'_>,
    worker: &mut Worker<'_>,
    made: &Made,
    subject: &Subject<'_>,
) -> Result<(), Errno> {
    let parent = match subject.sides {
        Some(sides) => ParentDirectory::Shared(Arc::clone(sides)),
        None => ParentDirectory::Own(duplicate(subject.dest.dir()?)?, subject.dest.path.to_owned()),
    };
    let last = subject.dest.name.to_owned();
    enqueue(cx, worker, Item::Link { made: made.clone(), parent, last, follow: subject.follow }, 0);
    Ok(())
}

/// A directory is full. It gets its attributes when everything in it has its name.
pub(crate) fn directory_is_full(cx: RunContext<'_>, worker: &mut Worker<'_>, directory: FullDirectory) {
    if cx.plan.names_wait() {
        enqueue(cx, worker, Item::Directory(directory), 0);
    } else {
        directories::finish_directory(cx, worker, &directory);
    }
}

fn enqueue(cx: RunContext<'_>, worker: &mut Worker<'_>, item: Item, bytes: u64) {
    // Each has a descriptor of its own, and maybe two of a directory.
    let most = (descriptors() / 16).clamp(1, MOST_FILES);
    if cx.services.durability.names.push(item, bytes, most) {
        give_names(cx, worker);
    }
}

/// Gives everything that waits its name, once it is on the device.
pub(crate) fn give_names(cx: RunContext<'_>, worker: &mut Worker<'_>) {
    if !cx.plan.names_wait() {
        return;
    }
    let shared = cx.services;
    let (items, turn) = shared.durability.names.take();
    let started = Instant::now();
    let synced = sync_filesystems(cx, &items);
    worker.report.stats.sync_time += started.elapsed();
    for item in items {
        match item {
            Item::File(ready) => {
                give_name(cx, worker, &ready, &synced);
                cx.session.partials.release(&ready);
                close(&mut worker.report, ready);
            }
            Item::Link { made, parent, last, follow } => {
                let path = parent.path(&last);
                if let Err(errno) =
                    link_now(cx, &mut worker.report, &made, Spot::new(parent.as_fd(), &last, &path), None, follow)
                {
                    worker.report.problem(Error::new(What::CannotHardLink, &path).and(made.path()).errno(errno));
                }
            }
            Item::Directory(directory) => directories::finish_directory(cx, worker, &directory),
        }
        if worker.finished.len() >= MOST_UNWRITTEN {
            resume::promise_all_finished(cx, worker);
        }
    }
    resume::promise_all_finished(cx, worker);
    drop(turn);
}

/// Brings the filesystems of the files to their devices, and says how that went. A filesystem that is not named was not
/// synced as a whole: its files are, one by one.
fn sync_filesystems(cx: RunContext<'_>, items: &[Item]) -> Synced {
    let mut files: Vec<(DeviceNumber, usize)> = Vec::new();
    for item in items {
        let Item::File(ready) = item else { continue };
        let device = ready.id.device();
        match files.iter_mut().find(|(known, _)| *known == device) {
            Some((_, count)) => *count += 1,
            None => files.push((device, 1)),
        }
    }
    // For one or two, syncs of their own are no more, and wait for nobody else's data.
    files.retain(|(_, count)| *count > 2);
    let devices: Vec<DeviceNumber> = files.into_iter().map(|(device, _)| device).collect();
    cx.services.durability.filesystems.sync(&devices, &|fd| retry_on_intr(|| cx.kernel.sync_filesystem(fd)))
}

fn give_name(cx: RunContext<'_>, worker: &mut Worker<'_>, ready: &Ready, synced: &[(DeviceNumber, Result<(), Errno>)]) {
    let device = ready.id.device();
    let synced = match synced.iter().find(|(known, _)| *known == device) {
        // Everything is there, unless an error says which file is not. It costs no flush of the device, as fsync does.
        Some((_, Ok(()))) => match retry_on_intr(|| cx.kernel.write_back(ready.file.as_fd(), true)) {
            // Only that it cannot be asked in this way: a sandbox, a kernel without the call.
            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => retry_on_intr(|| cx.kernel.sync(ready.file.as_fd())),
            written => written,
        },
        // Which file it was nobody can tell: the kernel reports an error of a filesystem once.
        Some((_, Err(errno))) => Err(*errno),
        None => retry_on_intr(|| cx.kernel.sync(ready.file.as_fd())),
    };
    match synced {
        Ok(()) => give_synced_name(cx, worker, ready),
        // Never asked twice: the second answer would be that all is well, though the data is lost.
        Err(errno) => {
            let path = ready.path();
            undo::withdraw(&mut worker.report, ready.spot(&path), Error::new(What::Syncing, &path).errno(errno));
        }
    }
}

pub(crate) fn close(report: &mut Reporter<'_>, ready: Arc<Ready>) {
    let Some(Ready { file, parent, last, .. }) = Arc::into_inner(ready) else { return };
    if let Err(errno) = haul_sys::close(file) {
        report.problem(Error::new(What::Closing, parent.path(&last)).errno(errno));
    }
}

/// It is on the device. What has to be read from there is read now.
fn give_synced_name(cx: RunContext<'_>, worker: &mut Worker<'_>, ready: &Ready) {
    let path = ready.path();
    let spot = ready.spot(&path);
    let blocks = ready.checked.blocks.as_ref();
    match blocks.map(|blocks| compare_with_device(cx.kernel, ready.file.as_fd(), blocks, true)).transpose() {
        Ok(None | Some(Finding::Same)) => {}
        Ok(Some(Finding::Differs(mismatch))) => {
            undo::set_aside(&mut worker.report, spot, &ready.last, mismatch);
            return;
        }
        // As far as anybody can tell it is good.
        Ok(Some(Finding::NoMedium)) => {
            worker.report.problem(Error::new(What::NoMedium, &path));
        }
        Err(errno) => {
            undo::withdraw(&mut worker.report, spot, Error::new(What::ReadingBack, &path).errno(errno));
            return;
        }
    }
    if publish(&mut worker.report, spot, &ready.last, ready.replaces) {
        if let Some(source) = ready.source {
            resume::promise_finished(worker, source, ready.file.as_fd(), &ready.checked);
        }
        tell_digest(&worker.report, &path, &ready.checked);
    }
}

/// Makes the entry another name of what was made. `here` is its directory, if that is known.
pub(crate) fn link_now(
    cx: RunContext<'_>,
    report: &mut Reporter<'_>,
    made: &Made,
    dest: Spot<'_>,
    here: Option<FileId>,
    follow: bool,
) -> Result<(), Errno> {
    if link_to(made, dest, here, follow, cx.temporary_names())? == Replaced::Something {
        report.tell(&Event::Removed(dest.path.into()));
    }
    report.stats.hard_links += 1;
    Ok(())
}

/// The last thing of a run: what was written is on its device afterwards, or an error is reported.
pub(crate) fn sync_everything(cx: RunContext<'_>, worker: &mut Worker<'_>) {
    give_names(cx, worker);
    // A run that a signal has stopped promises nothing, and does not wait for a sync that is under way.
    if cx.plan.durable == Durable::None || (cx.cancelled() && !cx.plan.fail_fast) {
        return;
    }
    let started = Instant::now();
    let failed_early = cx.services.durability.background.end();
    for filesystem in cx.services.durability.filesystems.take() {
        let synced = match &filesystem.fd {
            Some(fd) if filesystem.syncs_whole => retry_on_intr(|| cx.kernel.sync_filesystem(fd.as_fd())),
            // What was made below has been synced; this is what the operands were made in.
            Some(fd) => retry_on_intr(|| cx.kernel.sync_filesystem(fd.as_fd()))
                .and_then(|()| retry_on_intr(|| cx.kernel.sync(fd.as_fd()))),
            None => {
                sync();
                Ok(())
            }
        };
        // The kernel reports that one once, and this sync has not heard of it.
        let early = failed_early.iter().find(|(device, _)| *device == filesystem.device);
        let synced = early.map_or(synced, |(_, errno)| Err(*errno));
        if let Err(errno) = synced {
            worker.report.problem(Error::new(What::NotDurable, &filesystem.path).errno(errno));
        }
    }
    worker.report.stats.sync_time += started.elapsed();
}

/// Tells the digest of a file whose copy has its name.
pub(crate) fn tell_digest(report: &Reporter<'_>, dest: &Path, checked: &Checked) {
    if let Some(digest) = &checked.digest {
        report.tell(&Event::Digest { dest: dest.into(), digest: digest.into() });
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, SystemTime};

    use haul_io::verify::Blocks;
    use haul_sys::inode::Inode;

    use super::*;
    use crate::context::test_support::{Bench, Ran};
    use crate::plan::{Plan, Preserve};

    /// A run in which names wait, and files of one filesystem are synced as a whole.
    fn bench() -> Bench {
        let bench = Bench::new(Plan { durable: Durable::File, ..Plan::default() });
        bench.writes_to_filesystem(true);
        bench
    }

    /// A whole file under a temporary name, for this one.
    fn ready(bench: &Bench, last: &str, contents: &str) -> Ready {
        let name = bench.services.names.another();
        let path = bench.dest_path(name.to_str().unwrap());
        fs::write(&path, contents).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        Ready {
            id: Inode::of(file.as_fd()).unwrap().id,
            file: file.into(),
            size: contents.len() as u64,
            checked: Checked::default(),
            parent: ParentDirectory::Own(duplicate(bench.to(last).dir().unwrap()).unwrap(), last.into()),
            name,
            last: last.into(),
            replaces: bench.to(last).inode().is_ok(),
            source: None,
        }
    }

    /// Lets these files wait for their names, and gives them these.
    fn name_all(bench: &Bench, all: impl IntoIterator<Item = Ready>) -> Ran<()> {
        bench.run(|cx, worker| {
            all.into_iter().for_each(|ready| wait_for_device(cx, worker, ready));
            give_names(cx, worker);
        })
    }

    fn cannot_sync(name: &str, errno: Errno) -> String {
        format!(r#"error: failed to write "{name}" to its device: {errno}"#)
    }

    #[test]
    fn a_queued_file_gets_its_name_after_its_sync() {
        let bench = bench().dest("b", "old");
        name_all(&bench, [ready(&bench, "b", "new")]).says(&[]);
        assert_eq!(bench.tree(), ["b: new"]);
        assert_eq!(bench.kernel.synced(), ["a file, with [(temporary): new, b: old]"]);
    }

    #[test]
    fn many_files_get_their_names_after_one_sync() {
        let bench = bench();
        name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new"))).says(&[]);
        assert_eq!(bench.tree(), ["a: new", "b: new", "c: new"]);
        let all = ["(temporary): new"; 3].join(", ");
        assert_eq!(bench.kernel.synced(), [format!("a filesystem, with [{all}]")]);
    }

    #[test]
    fn files_are_synced_one_by_one_where_filesystems_are_not() {
        let bench = bench();
        bench.writes_to_filesystem(false);
        name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new"))).says(&[]);
        assert_eq!(bench.kernel.synced().len(), 3);
        assert!(bench.kernel.synced().iter().all(|line| line.starts_with("a file, ")));
    }

    #[test]
    fn a_file_whose_sync_fails_is_removed_and_reported_once() {
        let mut bench = bench().dest("b", "old");
        bench.kernel.sync = Some(Errno::IO);
        name_all(&bench, [ready(&bench, "b", "new")]).says(&[&cannot_sync("b", Errno::IO)]);
        assert_eq!(bench.tree(), ["b: old"]);
        assert_eq!(bench.kernel.synced().len(), 1, "a second sync would say that all is well");
    }

    #[test]
    fn no_file_gets_its_name_after_a_failed_sync() {
        let mut bench = bench();
        bench.kernel.sync_filesystem = Some(Errno::IO);
        let ran = name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new")));
        ran.says(&["a", "b", "c"].map(|name| cannot_sync(name, Errno::IO)).each_ref().map(String::as_str));
        assert!(bench.tree().is_empty());
        assert_eq!(bench.kernel.synced().len(), 1);
    }

    #[test]
    fn files_are_asked_for_errors_after_a_sync() {
        let mut bench = bench();
        bench.kernel.write_back = Some(Errno::NOSPC);
        let ran = name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new")));
        ran.says(&["a", "b", "c"].map(|name| cannot_sync(name, Errno::NOSPC)).each_ref().map(String::as_str));
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn files_that_cannot_be_asked_for_errors_are_synced() {
        let mut bench = bench();
        bench.kernel.write_back = Some(Errno::NOSYS);
        name_all(&bench, ["a", "b", "c"].map(|name| ready(&bench, name, "new"))).says(&[]);
        assert_eq!(bench.tree(), ["a: new", "b: new", "c: new"]);
        assert_eq!(bench.kernel.synced().len(), 1 + 3);
    }

    #[test]
    fn a_file_that_waits_goes_when_the_process_ends() {
        let bench = bench();
        bench.run(|cx, worker| wait_for_device(cx, worker, ready(&bench, "b", "new"))).says(&[]);
        assert_eq!(bench.partials.remove_all(), []);
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn a_named_file_stays_when_the_process_ends() {
        let bench = bench();
        name_all(&bench, [ready(&bench, "b", "new")]).says(&[]);
        assert_eq!(bench.partials.remove_all(), []);
        assert_eq!(bench.tree(), ["b: new"]);
    }

    #[test]
    fn a_file_that_has_its_name_is_closed() {
        let bench = bench();
        name_all(&bench, [ready(&bench, "b", "new")]).says(&[]);
        let is_b = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|path| path == bench.dest_path("b"));
        assert!(!fs::read_dir("/proc/self/fd").unwrap().flatten().any(is_b));
    }

    #[test]
    fn a_full_queue_is_emptied_at_once() {
        let bench = bench();
        let large = Ready { size: 1 << 30, ..ready(&bench, "b", "new") };
        bench.run(|cx, worker| wait_for_device(cx, worker, large)).says(&[]);
        assert_eq!(bench.tree(), ["b: new"]);
    }

    #[test]
    fn who_comes_to_a_waiting_name_finds_it() {
        let bench = bench();
        let ran = bench.run(|cx, worker| {
            wait_for_device(cx, worker, ready(&bench, "b", "new"));
            give_names_if_one_is(cx, worker, bench.to("c"));
            let before = bench.tree();
            give_names_if_one_is(cx, worker, bench.to("b"));
            before
        });
        assert_eq!(ran.value, ["(temporary): new"]);
        assert_eq!(bench.tree(), ["b: new"]);
    }

    #[test]
    fn a_digest_is_told_of_files_that_have_their_names() {
        let mut bench = bench();
        let checked = || Checked { digest: Some("abc".into()), ..Checked::default() };
        name_all(&bench, [Ready { checked: checked(), ..ready(&bench, "a", "new") }]).says(&["digest of a: abc"]);
        bench.kernel.sync = Some(Errno::IO);
        let failed = name_all(&bench, [Ready { checked: checked(), ..ready(&bench, "b", "new") }]);
        failed.says(&[&cannot_sync("b", Errno::IO)]);
    }

    /// A file is queued, and behind it a link to it, as `c`.
    fn name_file_and_link(bench: &Bench) -> Ran<()> {
        let bench_of = bench.subject("a", "c");
        bench.run(|cx, worker| {
            let ready = ready(bench, "b", "new");
            let made = Made { dir: bench.root(), name: "b".into(), id: Some(ready.id) };
            wait_for_device(cx, worker, ready);
            link_later(cx, worker, &made, &bench_of).unwrap();
            give_names(cx, worker);
        })
    }

    #[test]
    fn a_link_behind_its_file_becomes_its_other_name() {
        let bench = bench().source("a", "new");
        let ran = name_file_and_link(&bench);
        ran.says(&[]);
        assert_eq!((bench.tree(), ran.stats.hard_links), (vec!["b: new".into(), "c: new".into()], 1));
        assert_eq!(bench.to("b").inode().unwrap().id, bench.to("c").inode().unwrap().id);
    }

    #[test]
    fn a_link_behind_a_removed_file_is_an_error() {
        let mut bench = bench().source("a", "new");
        bench.kernel.sync = Some(Errno::IO);
        let ran = name_file_and_link(&bench);
        let link = format!(r#"error: cannot create hard link "c" to "dest/b": {}"#, Errno::NOENT);
        ran.says(&[&cannot_sync("b", Errno::IO), &link]);
        assert!(bench.tree().is_empty());
    }

    #[test]
    fn a_directory_gets_its_times_after_the_names_in_it() {
        let mut bench = bench();
        bench.plan.preserve = Preserve { timestamps: true, ..Preserve::default() };
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        File::open(bench.source_path("")).unwrap().set_modified(long_ago).unwrap();
        let ran = bench.run(|cx, worker| {
            wait_for_device(cx, worker, ready(&bench, "b", "new"));
            directory_is_full(cx, worker, bench.full_directory());
            let before = bench.tree();
            give_names(cx, worker);
            before
        });
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree()), (vec!["(temporary): new".into()], vec!["b: new".into()]));
        assert_eq!(fs::metadata(bench.dest_path("")).unwrap().mtime(), 1000);
    }

    /// Publishes the file `t` as `b`.
    fn publish_as_b(bench: &Bench, replaces: bool) -> Ran<bool> {
        bench.run(|_, worker| publish(&mut worker.report, bench.to("t"), OsStr::new("b"), replaces))
    }

    #[test]
    fn a_published_file_takes_the_place_of_the_old_one() {
        let bench = Bench::new(Plan::default()).dest("t", "new").dest("b", "old");
        let ran = publish_as_b(&bench, true);
        ran.says(&[]);
        assert_eq!((ran.value, bench.tree()), (true, vec!["b: new".into()]));
    }

    #[test]
    fn a_file_that_came_to_exist_is_not_replaced() {
        let bench = Bench::new(Plan::default()).dest("t", "new").dest("b", "theirs");
        let ran = publish_as_b(&bench, false);
        ran.says(&[&format!(r#"error: cannot create regular file "t": {}"#, Errno::EXIST)]);
        assert_eq!((ran.value, bench.tree()), (false, vec!["b: theirs".into()]));
    }

    #[test]
    fn a_dangling_link_is_not_replaced() {
        let bench = Bench::new(Plan::default()).dest("t", "new").link("b", "nowhere");
        let ran = publish_as_b(&bench, false);
        ran.says(&[r#"error: not writing through dangling symlink "t""#]);
        assert_eq!((ran.value, bench.tree()), (false, vec!["b -> nowhere".into()]));
    }

    #[test]
    fn a_file_that_cannot_be_published_is_removed() {
        let bench = Bench::new(Plan::default()).dest("t", "new");
        fs::create_dir(bench.dest_path("b")).unwrap();
        let ran = publish_as_b(&bench, true);
        ran.says(&[&format!(r#"error: cannot put the new "t" in its place: {}"#, Errno::ISDIR)]);
        assert_eq!((ran.value, bench.tree()), (false, vec!["b/".into()]));
    }

    /// A file whose source had three bytes with this fingerprint.
    fn to_be_compared(bench: &Bench) -> Ready {
        let blocks = Some(Blocks { size: 1 << 20, hashes: vec![1], total: 3 });
        Ready { checked: Checked { blocks, ..Checked::default() }, ..ready(bench, "b", "new") }
    }

    #[test]
    fn a_file_that_differs_on_its_device_is_set_aside() {
        let bench = bench().dest("b", "old");
        let ran = name_all(&bench, [to_be_compared(&bench)]);
        if ran.heard.iter().any(|line| line.contains("cannot verify")) {
            return haul_testbed::skip("temporary files have no device here");
        }
        assert_eq!(ran.heard.len(), 1);
        assert!(ran.heard[0].starts_with(r#"error: the copy "b" differs from its source"#), "{:?}", ran.heard);
        assert_eq!(bench.tree(), ["b.haul-mismatch: new", "b: old"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_back_is_removed() {
        let mut bench = bench().dest("b", "old");
        bench.kernel.reopen_to_read = Some(Errno::IO);
        let ran = name_all(&bench, [to_be_compared(&bench)]);
        if ran.heard.iter().any(|line| line.contains("cannot verify")) {
            return haul_testbed::skip("temporary files have no device here");
        }
        ran.says(&[&format!(r#"error: error reading back "b" to verify it: {}"#, Errno::IO)]);
        assert_eq!(bench.tree(), ["b: old"]);
    }

    fn not_durable() -> String {
        format!(r#"error: cannot write everything on the filesystem of "dest" to its device: {}"#, Errno::IO)
    }

    #[test]
    fn a_failed_sync_at_the_end_is_reported() {
        let mut bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
        bench.writes_to_filesystem(true);
        bench.kernel.sync_filesystem = Some(Errno::IO);
        bench.run(sync_everything).says(&[&not_durable()]);
    }

    #[test]
    fn a_failed_background_sync_is_reported_at_the_end() {
        let bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
        let device = bench.writes_to_filesystem(true);
        bench.services.durability.background.begin(device, || Err(Errno::IO));
        bench.run(sync_everything).says(&[&not_durable()]);
        assert_eq!(bench.kernel.synced().len(), 1, "it has not heard of the error");
    }

    #[test]
    fn the_directory_is_synced_where_filesystems_are_not() {
        let bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
        bench.writes_to_filesystem(false);
        bench.run(sync_everything).says(&[]);
        assert_eq!(bench.kernel.synced(), ["a filesystem, with []", "a file, with []"]);
    }

    #[test]
    fn a_cancelled_run_does_not_wait_for_devices() {
        let bench = Bench::new(Plan { durable: Durable::Flush, ..Plan::default() });
        bench.writes_to_filesystem(true);
        bench.cancel.cancel();
        bench.run(sync_everything).says(&[]);
        assert!(bench.kernel.synced().is_empty());
    }
}
