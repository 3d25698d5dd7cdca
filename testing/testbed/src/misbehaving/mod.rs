//! A filesystem in this process, in memory, that misbehaves as a test tells it to.
//!
//! It is a FUSE filesystem: what it answers goes through the kernel to whoever uses it. It is as good as any other until
//! [`Misbehaving::on`] sets a fault. It knows what its files truly contain, and it remembers whatever was changed in it.
//!
//! ```no_run
//! use haul_testbed::Bed;
//! use haul_testbed::misbehaving::{Fault, Manner, Misbehaving, On, What};
//! use rustix::io::Errno;
//!
//! let Some(bed) = Bed::new() else { return }; // not root: skipped and counted
//! let Some(fs) = Misbehaving::mount(&bed, "fs", Manner::default()) else { return };
//! fs.add_file("a", &[1; 8192]);
//! fs.on(Fault::of(On::Read, "a").at(5000).does(What::Fail(Errno::IO)));
//! assert!(std::fs::read(fs.path().join("a")).is_err());
//! ```

mod manner;
mod script;
mod server;
mod tree;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::{UnmountFlags, unmount};

use self::script::Stage;
use self::server::Server;
use self::tree::{Body, Node};
use crate::bed::Bed;
use crate::skip::skip;

pub use fuser::FileType;

pub use self::manner::Manner;
pub use self::script::{Fault, Lie, Listed, Look, On, Search, What, Whence};

/// Requests that are answered at the same time; some of them may block.
const THREADS: usize = 4;

/// A mounted filesystem. Dropped, it is unmounted, also while it is in use; what blocks in it goes on then.
pub struct Misbehaving {
    path: PathBuf,
    stage: Arc<Stage>,
    _session: BackgroundSession,
}

impl Misbehaving {
    /// Mounts an empty one on a new directory of this name in the test bed. `None`, after a [`skip`], where the machine has
    /// no `/dev/fuse`.
    ///
    /// # Panics
    /// If there is one and it cannot be mounted all the same.
    #[must_use]
    pub fn mount(bed: &Bed, name: &str, manner: Manner) -> Option<Misbehaving> {
        if !Path::new("/dev/fuse").exists() {
            skip("there is no /dev/fuse");
            return None;
        }
        let path = bed.path().join(name);
        std::fs::create_dir(&path).expect("cannot make a mount point");
        let stage = Arc::new(Stage::default());
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("misbehaving".to_owned()), MountOption::Dev, MountOption::Suid];
        config.n_threads = Some(THREADS);
        let server = Server::new(Arc::clone(&stage), manner);
        let session = fuser::spawn_mount(server, &path, &config).expect("cannot mount a FUSE filesystem");
        Some(Misbehaving { path, stage, _session: session })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory, and those above it. That is no mutation.
    pub fn add_directory(&self, path: &str) {
        self.directory(Path::new(path));
    }

    /// Makes a file, and the directories above it. Blocks of zeros in it are holes. That is no mutation.
    pub fn add_file(&self, path: &str, bytes: &[u8]) {
        self.add(path, Node::new(Body::File(bytes.to_vec()), 0o644));
    }

    /// Makes a symbolic link, and the directories above it. That is no mutation.
    pub fn add_link(&self, path: &str, target: &str) {
        self.add(path, Node::new(Body::Link(target.into()), 0o777));
    }

    /// Sets an extended attribute. That is no mutation.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn add_attribute(&self, path: &str, name: &str, value: &[u8]) {
        let mut state = self.stage.lock();
        let ino = state.tree.find(path).expect("there is such a file");
        let node = state.tree.node_mut(ino).expect("it was found");
        node.xattrs.insert(name.into(), value.to_vec());
    }

    fn add(&self, path: &str, node: Node) {
        let path = Path::new(path);
        let parent = self.directory(path.parent().unwrap_or(Path::new("")));
        let name = path.file_name().expect("a name");
        self.stage.lock().tree.insert(parent, name, node).expect("nothing has this name yet");
    }

    fn directory(&self, path: &Path) -> u64 {
        let tree = &mut self.stage.lock().tree;
        path.iter().fold(tree::ROOT, |parent, name| {
            let found = tree.child(parent, name);
            found.unwrap_or_else(|_| tree.insert(parent, name, Node::new(Body::empty_directory(), 0o755)).expect("new"))
        })
    }

    /// Sets a fault; it holds until [`Misbehaving::behave`].
    pub fn on(&self, fault: Fault) {
        self.stage.lock().script.add(fault);
    }

    /// Takes all faults away; what blocks goes on.
    pub fn behave(&self) {
        self.stage.release();
    }

    /// Answers what blocks with EINTR, as a server does when the kernel tells it that a signal has come. The kernel waits for
    /// that answer even after SIGKILL, and [`fuser`] keeps what the kernel tells to itself.
    pub fn interrupt(&self) {
        self.stage.interrupt();
    }

    /// How often faults were met since they were set.
    pub fn met(&self) -> u32 {
        self.stage.lock().script.met()
    }

    /// Waits until something blocks in a [`What::Block`].
    ///
    /// # Panics
    /// If nothing does within a minute.
    pub fn wait_until_blocked(&self) {
        self.stage.wait_until_blocked(Duration::from_secs(60));
    }

    /// The true contents of a file; `None` if there is no regular file of this name.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.stage.lock();
        let node = state.tree.node(state.tree.find(path)?).ok()?;
        match &node.body {
            Body::File(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// The true extended attributes of a file.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn attributes(&self, path: &str) -> BTreeMap<OsString, Vec<u8>> {
        let state = self.stage.lock();
        let ino = state.tree.find(path).expect("there is such a file");
        state.tree.node(ino).expect("it was found").xattrs.clone()
    }

    /// The paths of everything below a directory, in order; nothing if there is no such directory.
    pub fn paths(&self, below: &str) -> Vec<String> {
        let state = self.stage.lock();
        let mut paths = state.tree.paths();
        paths.retain(|path| path.starts_with(&format!("{below}/")));
        paths.sort();
        paths
    }

    /// What was changed below a directory, or tried to: an operation and a path each.
    pub fn mutations(&self, below: &str) -> Vec<String> {
        let state = self.stage.lock();
        let of = |(on, path): &(On, String)| {
            (path == below || path.starts_with(&format!("{below}/"))).then(|| format!("{on:?} {path}"))
        };
        state.mutations.iter().filter_map(of).collect()
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        self.behave();
        // Somebody may still be in it, after a failure of the test; the end of the namespace would do the same.
        if let Err(errno) = unmount(&self.path, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {errno}", self.path.display());
        }
    }
}
