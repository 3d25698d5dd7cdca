//! Where engines are tested: in a temporary directory, and as root on a filesystem of each kind.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use haul_sys::kernel::{Kernel, Linux};
use haul_testbed::{Bed, Fs, TempDir, skip, temp_dir};

use crate::harness::{dest, source};

/// A directory, and what its filesystem can do.
pub struct Place {
    pub name: &'static str,
    pub dir: PathBuf,
    /// The kind of filesystem, if it was made for the test.
    pub kind: Option<Fs>,
    pub device: u64,
    /// It says what direct I/O demands (STATX_DIOALIGN).
    pub direct: bool,
    /// Files can share extents.
    pub reflinks: bool,
    /// It takes requests that leave nothing in the page cache.
    pub dontcache: bool,
}

impl Place {
    /// A filesystem that was made for a test.
    pub fn on(kind: Fs, dir: PathBuf) -> Place {
        Place::look(kind.name(), dir, Some(kind))
    }

    fn look(name: &'static str, dir: PathBuf, kind: Option<Fs>) -> Place {
        let (from, to) = (dir.join("look-from"), dir.join("look-to"));
        fs::write(&from, [1; 4096]).unwrap();
        let (source, dest) = (source(&from), dest(&to));
        let place = Place {
            name,
            kind,
            device: fs::metadata(&dir).unwrap().dev(),
            direct: dest.direct.is_some(),
            reflinks: Linux.clone_file(source.as_fd(), dest.as_fd()).is_ok(),
            dontcache: Linux.pwrite_dontcache(dest.as_fd(), &[1; 4096], 0).is_ok(),
            dir,
        };
        fs::remove_file(from).unwrap();
        fs::remove_file(to).unwrap();
        if let Some(kind) = kind {
            assert_eq!(place.reflinks, kind.reflinks(), "{name}");
            assert_eq!(place.direct, matches!(kind, Fs::Ext4 | Fs::Xfs), "{name}");
        }
        place
    }
}

/// All places that this user can have. What cannot be had is skipped, and counted.
pub struct Places {
    all: Vec<Place>,
    _plain: TempDir,
    _bed: Option<Bed>,
}

impl Places {
    /// A temporary directory, and as root a filesystem of each kind.
    pub fn new() -> Places {
        let mut places = Places::plain();
        places._bed = Bed::new();
        if let Some(bed) = &places._bed {
            let mounted = Fs::ALL.into_iter().filter_map(|kind| Some((kind, bed.mount(kind)?)));
            places.all.extend(mounted.map(|(kind, dir)| Place::on(kind, dir)));
        }
        places
    }

    /// Only a temporary directory, which needs no privilege.
    pub fn plain() -> Places {
        let plain = temp_dir();
        let all = vec![Place::look("the temporary directory", plain.path().to_owned(), None)];
        Places { all, _plain: plain, _bed: None }
    }

    /// Those where it is so; says so if there is none.
    pub fn where_there_is<'a>(&'a self, what: &str, it_is_so: impl Fn(&Place) -> bool + 'a) -> Vec<&'a Place> {
        let found: Vec<&Place> = self.all.iter().filter(|place| it_is_so(place)).collect();
        if found.is_empty() {
            skip(format!("no place with {what}"));
        }
        found
    }

    /// The first one, which is always there.
    pub fn first(&self) -> &Place {
        &self.all[0]
    }
}

impl<'a> IntoIterator for &'a Places {
    type Item = &'a Place;
    type IntoIter = std::slice::Iter<'a, Place>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}
