//! The Debian packages that the tests need. The list is here and nowhere else.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::{self, Result};

/// A package, a program (or a file, by its path with one star) by which to see that it is there, and what the tests want
/// it for.
#[derive(Clone, Copy)]
struct Package {
    name: &'static str,
    program: &'static str,
    reason: &'static str,
}

impl Package {
    fn is_there(&self) -> bool {
        match self.program.split_once('*') {
            None => shell::has(self.program),
            Some((before, after)) => {
                let (dir, start) = before.rsplit_once('/').unwrap_or((".", before));
                // A directory that is not there has nothing in it.
                let found = std::fs::read_dir(dir).into_iter().flatten().flatten();
                found
                    .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
                    .any(|entry| Path::new(&format!("{}{after}", entry.path().display())).exists())
            }
        }
    }
}

const fn package(name: &'static str, program: &'static str, reason: &'static str) -> Package {
    Package { name, program, reason }
}

const PACKAGES: &[Package] = &[
    package("e2fsprogs", "mkfs.ext4", "ext4 in loop images; chattr and lsattr for inode flags"),
    package("xfsprogs", "mkfs.xfs", "XFS in loop images, with and without reflink; xfs_io for extents"),
    package(
        "btrfs-progs",
        "mkfs.btrfs",
        "btrfs in loop images, and btrfs for the second opinion on what is free there",
    ),
    package("fdisk", "sfdisk", "partition tables to read, and its opinion of them"),
    package("lvm2", "lvm", "LVM2 metadata to read, and its opinion of them"),
    package("dosfstools", "mkfs.vfat", "FAT images; fsck.vfat to check them"),
    package("mtools", "mcopy", "files in FAT images, without a kernel driver"),
    package("exfatprogs", "mkfs.exfat", "exFAT images; fsck.exfat and dump.exfat to check them"),
    package("exfat-fuse", "mount.exfat-fuse", "files in exFAT images, without a kernel driver"),
    package("ntfs-3g", "mkfs.ntfs", "NTFS in images, mounted in user space"),
    package("mount", "losetup", "loop devices and mounting"),
    package("util-linux", "unshare", "private mount namespaces; prlimit, setpriv"),
    package("acl", "setfacl", "ACLs to keep, and getfacl to compare them"),
    package("attr", "setfattr", "extended attributes to keep, and getfattr to compare them"),
    package("libcap2-bin", "setcap", "file capabilities to keep"),
    package("rsync", "rsync", "compares trees by checksum, an opinion that is not haul's"),
    package("diffutils", "diff", "the second opinion on contents"),
    package("strace", "strace", "asserts which system calls a copy makes"),
    package("valgrind", "valgrind", "watches what a copy does to its memory"),
    package("qemu-utils", "qemu-img", "containers of disk images, and a second opinion on what is in them; qemu-io"),
    package("qemu-system-common", "qemu-storage-daemon", "logs what reaches a device, to cut its power at each flush"),
    package("b3sum", "b3sum", "checks lists of BLAKE3 digests"),
    package("xxhash", "xxhsum", "checks lists of XXH3 digests"),
    package("bash", "bash", "loads its completion file"),
    package("shellcheck", "shellcheck", "a second opinion on the batch script of docs/examples"),
    package("zsh", "zsh", "loads its completion file"),
    package("fish", "fish", "loads its completion file"),
    package("bsdutils", "script", "gives the progress bar a terminal"),
    package("mandoc", "mandoc", "a second opinion on the man page"),
    package("chromium", "chromium", "opens the reports of haul-lab, on screens of several widths"),
    package("man-db", "man", "renders the man page and warns of its faults"),
    package("iproute2", "ip", "hosts of their own for haul-mpi: network namespaces, joined by a bridge"),
    package("golang-go", "go", "the example in Go that reads --json"),
    package("nodejs", "node", "the same in JavaScript"),
    package("python3", "python3", "the same in Python"),
    package("python3-venv", "/usr/lib/python3.*/ensurepip/__init__.py", "environments for the Python package"),
    // Debian 12 has it only under a name with the version, which apt-get finds by an expression with anchors.
    package(
        "^libpython3[.][0-9]+-testsuite$",
        "/usr/lib/python3.*/test/test_shutil.py",
        "CPython's tests of what is in shutil's place",
    ),
];

/// What haul-mpi is built and run with.
const FOR_MPI: &[Package] = &[
    package("openmpi-bin", "mpirun.openmpi", "runs haul-mpi as ranks of Open MPI"),
    package("libopenmpi-dev", "mpicc.openmpi", "builds haul-mpi with Open MPI"),
    package("mpich", "mpirun.mpich", "runs haul-mpi as ranks of MPICH"),
    package("libmpich-dev", "mpicc.mpich", "builds haul-mpi with MPICH"),
    package("slurmctld", "slurmctld", "a batch system on one machine, which starts haul-mpi and shards"),
    package("slurmd", "slurmd", "the nodes of it"),
    package("slurm-client", "srun", "the commands of it"),
    package("parallel", "parallel", "starts shards"),
    package("libclang-dev", "/usr/lib/llvm-*/lib/libclang.so", "reads the headers of both for the crate mpi"),
];

/// What `cargo xtask vm` needs here; what its guests are made of is in `vm/machine.rs`.
const FOR_VM: &[Package] = &[
    package("qemu-system-x86", "qemu-system-x86_64", "virtual machines with kernels of their own"),
    package("cpio", "cpio", "packs what a kernel starts from"),
    package("binutils", "strip", "takes what is for debuggers out of the guests' programs"),
    package("kmod", "depmod", "says which modules of a kernel need which"),
    package("e2fsprogs", "mkfs.ext4", "makes the disk of the virtual machines"),
];

/// What is distributed is built, packed and tried with these.
const FOR_DIST: &[Package] = &[
    package("musl-tools", "musl-gcc", "compiles C for static binaries"),
    package("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "the same for aarch64, and links them"),
    package("libc6-dev-arm64-cross", "/usr/aarch64-linux-gn*/include/stdlib.h", "the headers for that"),
    package("qemu-user-static", "qemu-aarch64-static", "runs them on another processor"),
    package("binutils", "readelf", "says what a binary asks for"),
    package("dpkg-dev", "dpkg-shlibdeps", "says which packages have the libraries of a binary"),
    package("lintian", "lintian", "says what is wrong with a package for Debian"),
    package("debootstrap", "debootstrap", "makes a fresh Debian to install packages in"),
    package("rpm", "rpmbuild", "makes packages for other distributions"),
    package("buildah", "buildah", "makes the container image of docs/examples, and runs it"),
];

/// Installs what is missing, as root or by sudo; says what it found.
///
/// # Errors
/// When something is missing and cannot be installed; the message is the command that would.
pub fn install() -> Result<String> {
    install_all(&[PACKAGES, FOR_MPI, FOR_DIST, FOR_VM].concat())
}

/// The packages that are missing for haul-mpi, or nothing.
pub fn missing_for_mpi() -> Vec<&'static str> {
    FOR_MPI.iter().filter(|package| !package.is_there()).map(|package| package.name).collect()
}

/// Installs what is missing for it.
pub fn install_for_mpi() -> Result<String> {
    install_all(FOR_MPI)
}

/// The same for what virtual machines need.
pub fn install_for_vm() -> Result<String> {
    install_all(FOR_VM)
}

/// The same for what `dist` needs.
pub fn install_for_dist() -> Result<String> {
    install_all(FOR_DIST)
}

fn install_all(packages: &[Package]) -> Result<String> {
    let missing: Vec<&Package> = packages.iter().filter(|package| !package.is_there()).collect();
    if missing.is_empty() {
        return Ok(format!("{} packages, all there", packages.len()));
    }
    for package in &missing {
        println!("missing: {} ({})", package.name, package.reason);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if !shell::has("apt-get") {
        return Err(format!("this is no Debian; please install what provides: {}", names.join(" ")));
    }
    shell::run(apt_get()?.arg("update"))?;
    shell::run(apt_get()?.args(["install", "--yes", "--no-install-recommends"]).args(&names))?;
    match missing.iter().find(|package| !package.is_there()) {
        None => Ok(format!("{} packages, installed {}", packages.len(), names.join(" "))),
        Some(package) => Err(format!("package {} is installed but there is no {}", package.name, package.program)),
    }
}

/// Installs one package that is not for the tests.
pub fn install_one(name: &str) -> Result {
    if !shell::has("apt-get") {
        return Err(format!("this is no Debian, so {name} must be installed by hand"));
    }
    // The lists may be there already, and may not be reachable.
    let mut install = apt_get()?;
    install.args(["install", "--yes", "--no-install-recommends", name]).stdout(Stdio::null());
    if shell::run(&mut install).is_ok() {
        return Ok(());
    }
    shell::run(apt_get()?.arg("update").stdout(Stdio::null()))?;
    shell::run(&mut install)
}

fn apt_get() -> Result<Command> {
    let quiet = ["--quiet", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120"];
    if shell::is_root() {
        let mut command = shell::command("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(quiet);
        return Ok(command);
    }
    if !shell::has("sudo") {
        return Err(
            "packages are missing, and this is neither root nor is there sudo; run `cargo xtask` as root".into()
        );
    }
    let mut command = shell::command("sudo");
    command.args(["--non-interactive", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(quiet);
    Ok(command)
}
