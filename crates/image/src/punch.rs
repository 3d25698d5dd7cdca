//! Gives back the free space of an image in place: holes take the place of what is proven free.
//!
//! Only under a lease for writing: nobody else has the image open, and whoever opens it waits and is noticed between
//! two requests.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use haul_guest::report::{Map, Verdict};
use haul_guest::{ExtentSet, ReadAt};
use haul_io::engine::calls::again;
use haul_sys::Errno;
use haul_sys::in_use::{is_locked, is_still_alone, keep_others_out, let_others_in};
use haul_sys::inode::{Inode, Kind};
use haul_sys::kernel::Kernel;
use haul_sys::rustix::fs::OFlags;

use haul_fs::error::{Error, What, errno_of};
use haul_fs::walk::Operand;

use super::changes::Look;
use super::container::{Contents, Format, contents};
use super::found::Found;
use super::in_use::in_use;
use super::options::GRANULE;
use super::source::{RawImage, Source};
use super::system::System;

/// One request frees at most so many bytes, so that whoever waits for the image is soon noticed.
const STRIDE: u64 = 256 << 20;

/// What was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Punched {
    /// What is known of the image.
    pub map: Map,
    /// Bytes that were allocated before and are not any more.
    pub freed: u64,
}

/// Makes holes of everything in an image that is proven free; in a container, of what holds nothing but free bytes of its
/// disk, so that its clusters stay where they are. The image must be a regular file that nobody else has open; as long as
/// this works on it, nobody can open it. `required`: no part of it may be refused.
///
/// # Errors
/// If it is in use, or that cannot be excluded; if it is a container that is not understood or has several files; if it
/// cannot be read or changed. Nothing but free space was changed in any case.
pub fn punch(
    kernel: &Arc<dyn Kernel>,
    path: &Path,
    system: &System,
    required: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Punched, Error> {
    let said = |what| move |errno| Error::new(what, path).errno(errno);
    let refused = |why: String| Error::new(What::NotPunched, path).detail(why);
    let (alone, before) = open_alone(path, system)?;
    let file = &alone.0;
    let size = kernel.size(file.as_fd()).map_err(said(What::CannotFstat))?;
    // Without the directory: a disk in several files would be changed in files that others may have open.
    let source = Source::given(Arc::clone(file), before, path, size);
    let image = RawImage::of(kernel, &source);
    let kept = match contents(kernel, &source, Format::Auto) {
        Contents::Raw => None,
        Contents::Container(container) => Some(container.keep(&source)),
        Contents::Bytes(why) => return Err(refused(why)),
    };
    let disk: &dyn ReadAt = kept.as_ref().map_or(&image, |kept| kept.disk());
    // What an overlay somewhere else has of it cannot be seen, and what is punched is gone.
    let options = haul_guest::fs::Options { only_unmounted: true, ..haul_guest::fs::Options::default() };
    let map = haul_guest::map::map(disk, &options);
    let refusal = map.regions.iter().find(|region| matches!(region.verdict, Verdict::Refused(_)));
    if let (true, Some(region)) = (required, refusal) {
        return Err(refused(format!("{}: {}", region.place, region.verdict.reason().unwrap_or_default())));
    }
    if !map.regions.iter().any(|region| matches!(region.verdict, Verdict::Mapped { .. })) {
        let why = refusal.and_then(|region| region.verdict.reason());
        return Err(refused(why.unwrap_or_else(|| "no part of it could be mapped".to_owned())));
    }
    let unreadable = |error: std::io::Error| Error::new(What::Reading, path).errno(errno_of(error));
    let found = match &kept {
        None => Found::of_disk(map),
        Some(kept) => kept.found(map).map_err(|(_, why)| refused(why.to_owned()))?,
    };
    let holds = found.still_holds(&image).map_err(unreadable)?;
    // A lease keeps out whoever opens the file from here on, but not what comes in another way.
    let now = Look::at(file.as_fd(), system).map_err(said(What::CannotFstat))?;
    if !holds || now != Look::of(&before, system) {
        return Err(refused("it is being changed".to_owned()));
    }
    punch_all(&**kernel, path, file, &found.free().trimmed_to(GRANULE), stop)?;
    let after = Inode::of(file.as_fd()).map_err(said(What::CannotFstat))?;
    Ok(Punched { map: found.map, freed: before.allocated.saturating_sub(after.allocated) })
}

/// An image that nobody else can open as long as this is there.
struct Alone(Arc<OwnedFd>);

impl Drop for Alone {
    fn drop(&mut self) {
        let_others_in(self.0.as_fd());
    }
}

/// Opens an image that nobody else has open, and keeps others out.
fn open_alone(path: &Path, system: &System) -> Result<(Alone, Inode), Error> {
    let operand = Operand::open(path.as_os_str());
    let spot = operand.spot();
    let said = |what| move |errno| Error::new(what, path).errno(errno);
    let refused = |why: String| Error::new(What::NotPunched, path).detail(why);
    let looks = spot.inode_following().map_err(said(What::CannotStat))?;
    if looks.kind != Kind::Regular {
        return Err(refused("it is no regular file".to_owned()));
    }
    let reader = spot.open(OFlags::RDONLY | OFlags::NONBLOCK, 0).map_err(|errno| match errno {
        // Its holder was asked to give it up, and may do so later.
        Errno::AGAIN => refused("it is in use: another process holds a lease on it".to_owned()),
        errno => said(What::CannotOpen)(errno),
    })?;
    let inode = Inode::of(reader.as_fd()).map_err(said(What::CannotFstat))?;
    if let Some(user) = in_use(path, reader.as_fd(), &inode, system) {
        return Err(refused(format!("it is in use: {user}")));
    }
    // With it open, we ourselves would be in the way of the lease.
    drop(reader);
    let file = spot.open(OFlags::RDWR | OFlags::NONBLOCK, 0).map_err(|errno| {
        let error = Error::new(What::NotPunched, path);
        error.detail("it cannot be opened for writing".to_owned()).errno(errno)
    })?;
    let now = Inode::of(file.as_fd()).map_err(said(What::CannotFstat))?;
    if now.id != inode.id || now.kind != Kind::Regular {
        return Err(refused("another file has taken its place".to_owned()));
    }
    let alone = Alone(Arc::new(file));
    match keep_others_out(alone.0.as_fd()) {
        Ok(true) => {}
        Ok(false) => return Err(refused("another process has it open".to_owned())),
        Err(errno) => {
            let error = refused("that nobody else opens it cannot be had here".to_owned());
            return Err(error.errno(errno));
        }
    }
    // Locks can be had without the file being open only in a network; a lease knows nothing of those.
    if matches!(is_locked(alone.0.as_fd(), 0, 0), Ok(true)) {
        return Err(refused("another process holds a lock on it".to_owned()));
    }
    Ok((alone, now))
}

fn punch_all(
    kernel: &dyn Kernel,
    path: &Path,
    file: &OwnedFd,
    free: &ExtentSet,
    stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let stopped = |why: &str| Error::new(What::StoppedPunching, path).detail(why);
    for run in free.iter() {
        let mut at = run.start;
        while at < run.end() {
            if stop() {
                return Err(stopped("it was interrupted"));
            }
            // Who opens it waits for us meanwhile, and sees an image that is whole.
            if is_still_alone(file.as_fd()) != Ok(true) {
                return Err(stopped("another process is opening it"));
            }
            let len = (run.end() - at).min(STRIDE);
            again(|| kernel.punch_hole(file.as_fd(), at, len))
                .map_err(|errno| Error::new(What::MakingHole, path).errno(errno))?;
            at += len;
        }
    }
    Ok(())
}
