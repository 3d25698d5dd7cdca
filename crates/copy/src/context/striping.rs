//! How Lustre stripes the files that a run makes, as a profile says.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_fs::layout::Layout;
use haul_io::probe;
use haul_io::profile::{Profile, StripeCount, Stripes, Striping};
use haul_sys::filesystem::FilesystemType;
use haul_sys::inode::DeviceNumber;
use parking_lot::RwLock;

/// What the profile says of the filesystems that a run makes files on; each is asked once what it is.
#[derive(Default)]
pub(crate) struct StripedFilesystems {
    /// A run makes files on few filesystems.
    known: RwLock<Vec<(DeviceNumber, Option<Arc<Striped>>)>>,
}

/// What it says of one of them.
#[derive(Debug)]
struct Striped {
    striping: Striping,
    /// The profile, for people.
    origin: String,
    /// Lustre has refused a layout.
    refused: AtomicBool,
}

/// The layout that a new file is to have.
#[derive(Debug)]
pub(crate) struct WantedLayout {
    pub layout: Layout,
    /// What the layout is made of; `None` if it is that of the source.
    pub stripes: Option<Stripes>,
    on: Arc<Striped>,
}

impl WantedLayout {
    /// The profile that says so.
    pub fn origin(&self) -> &str {
        &self.on.origin
    }

    /// Notes that Lustre has refused it, and whether that is the first one there.
    pub fn is_first_refusal(&self) -> bool {
        !self.on.refused.swap(true, Ordering::Relaxed)
    }
}

impl StripedFilesystems {
    /// The layout that the profile wants for a file of so many bytes, made in this directory from this source. `None` if it wants
    /// none, or if the directory is not on Lustre.
    pub fn wanted(
        &self,
        profile: &Profile,
        (dir, device): (BorrowedFd<'_>, impl FnOnce() -> Option<DeviceNumber>),
        (source, size): (BorrowedFd<'_>, u64),
    ) -> Option<WantedLayout> {
        // Most files are asked for no more than this.
        profile.smallest_striped().filter(|least| size >= *least)?;
        let on = self.on(profile, dir, device()?)?;
        if on.striping.as_source
            && let Ok(layout) = Layout::of(source)
            && layout.is_for_new_files()
        {
            return Some(WantedLayout { layout, stripes: None, on });
        }
        let stripes = on.striping.of_size(size)?.clone();
        let count = match stripes.count {
            StripeCount::Of(count) => count,
            StripeCount::All => u16::MAX,
        };
        let layout = Layout::striped(count, stripes.size.unwrap_or(0), &stripes.pool);
        Some(WantedLayout { layout, stripes: Some(stripes), on })
    }

    fn on(&self, profile: &Profile, dir: BorrowedFd<'_>, device: DeviceNumber) -> Option<Arc<Striped>> {
        if let Some((_, known)) = self.known.read().iter().find(|(known, _)| *known == device) {
            return known.clone();
        }
        // What cannot be asked now is asked again for the next file.
        let filesystem = FilesystemType::of(dir).ok()?;
        let place = if filesystem == FilesystemType::LUSTRE { probe::place(dir) } else { None };
        let entry = place.and_then(|place| profile.striping_of(&place));
        let on = entry.map(|entry| {
            let (striping, origin) = (entry.striping.clone(), entry.origin.clone());
            Arc::new(Striped { striping, origin, refused: AtomicBool::new(false) })
        });
        let mut known = self.known.write();
        // Another thread may have asked meanwhile: what Lustre refuses is noted in one place.
        if let Some((_, known)) = known.iter().find(|(known, _)| *known == device) {
            return known.clone();
        }
        known.push((device, on.clone()));
        on
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use haul_io::profile::PlaceEntry;
    use haul_sys::inode::Inode;
    use haul_testbed::temp_dir;

    use super::*;

    fn profile(dir: &File) -> Profile {
        let stripes = Stripes { from: 4, count: StripeCount::Of(2), size: None, pool: String::new() };
        let striping = Striping { as_source: false, by_size: vec![stripes] };
        let place = probe::place(dir.as_fd()).unwrap();
        Profile { places: vec![PlaceEntry { place, striping, ..PlaceEntry::default() }] }
    }

    #[test]
    fn only_files_on_lustre_are_striped_and_others_are_asked_once() {
        let dir = temp_dir();
        let dir = File::open(dir.path()).unwrap();
        let (profile, striped) = (profile(&dir), StripedFilesystems::default());
        let device = Inode::of(dir.as_fd()).unwrap().id.device();
        let wanted = |size| striped.wanted(&profile, (dir.as_fd(), || Some(device)), (dir.as_fd(), size)).is_some();
        assert!(!wanted(3) && striped.known.read().is_empty(), "no stripes begin with files so small");
        assert!(!wanted(4) && !wanted(5));
        assert_eq!(striped.known.read().len(), 1);
    }

    #[test]
    fn the_layout_is_that_of_the_size_and_refusals_are_reported_once() {
        let dir = temp_dir();
        let dir = File::open(dir.path()).unwrap();
        let (profile, striped) = (profile(&dir), StripedFilesystems::default());
        let entry = &profile.places[0];
        let on = Striped { striping: entry.striping.clone(), origin: "p".to_owned(), refused: AtomicBool::new(false) };
        let device = Inode::of(dir.as_fd()).unwrap().id.device();
        striped.known.write().push((device, Some(Arc::new(on))));
        let wanted = |size| striped.wanted(&profile, (dir.as_fd(), || Some(device)), (dir.as_fd(), size));
        assert!(wanted(3).is_none());
        let first = wanted(4).unwrap();
        assert_eq!((&first.layout, first.origin()), (&Layout::striped(2, 0, ""), "p"));
        assert!(first.is_first_refusal() && !wanted(9).unwrap().is_first_refusal());
    }
}
