//! What the virtual machine is made of: kernels, a system of Debian packages, and the programs under test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::apt::{self, Release};
use crate::shell::{self, Result};

/// A kernel of Debian for virtual machines.
pub struct Kernel {
    /// As people call it.
    pub name: &'static str,
    suite: &'static str,
    /// What QEMU emulates for it.
    pub processor: &'static str,
}

/// From the oldest that the mirrors have to the newest that runs with the libraries of Debian 12.
pub const KERNELS: [Kernel; 3] = [
    // Open MPI has atomic operations by cmpxchg16b.
    Kernel { name: "6.1", suite: "bookworm", processor: "max" },
    Kernel { name: "5.10", suite: "bullseye", processor: "max,-cx16" },
    // It allocates memory by cmpxchg16b, and dies of how QEMU 7.2 emulates that.
    Kernel { name: "6.12", suite: "bookworm-backports", processor: "max,-cx16" },
];

/// What the guest's system is made of, with all that these need.
const SYSTEM: &[&str] = &[
    "acl",
    "attr",
    "bash",
    "btrfs-progs",
    "busybox-static",
    "cifs-utils",
    "coreutils",
    "diffutils",
    "dmsetup",
    "dosfstools",
    "e2fsprogs",
    "findutils",
    "iproute2",
    "kmod",
    "mount",
    "mpich",
    "nfs-kernel-server",
    "openmpi-bin",
    "openssh-client",
    "openssh-server",
    "rsync",
    "samba",
    "samba-vfs-modules",
    "thin-provisioning-tools",
    "util-linux",
    "xfsprogs",
];

/// Without these the first process cannot reach its disk.
const FIRST_MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];

/// How large the disk of the system is.
const SYSTEM_SIZE: u64 = 2 << 30;

/// What the system is made of and how, in words. It is made anew where they have changed.
fn recipe() -> String {
    format!("2: {} bytes of {}", SYSTEM_SIZE, SYSTEM.join(" "))
}

/// The parts of a machine, made once and kept below `target/vm`.
pub struct Machine {
    dir: PathBuf,
}

impl Machine {
    /// Makes what is not there yet.
    pub fn prepare() -> Result<Machine> {
        let machine = Machine { dir: shell::target().join("vm") };
        let (made, recipe) = (machine.dir.join("made"), recipe());
        // What was made by another recipe lacks what the cases have come to need since.
        if !fs::read_to_string(&made).is_ok_and(|of| of == recipe) {
            machine.remove("system")?;
            machine.fetch()?;
            shell::write(&made, &recipe)?;
        }
        Ok(machine)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn system(&self) -> PathBuf {
        self.dir.join("system.img")
    }

    /// The kernel's own file.
    pub fn kernel(&self, kernel: &Kernel) -> PathBuf {
        self.dir.join(format!("vmlinuz-{}", kernel.name))
    }

    /// What the kernel starts from.
    pub fn first(&self, kernel: &Kernel) -> PathBuf {
        self.dir.join(format!("first-{}", kernel.name))
    }

    fn remove(&self, name: &str) -> Result {
        shell::remove(&self.dir.join(name))
    }

    fn fetch(&self) -> Result {
        let (system, lists) = (self.dir.join("system"), self.dir.join("lists"));
        println!("fetching the guest's system (once)");
        let count = Release::fetch(&apt::this_release()?, &lists)?.unpack_with_needed(SYSTEM, &system)?;
        println!("{count} packages");
        for kernel in &KERNELS {
            self.fetch_kernel(kernel, &lists, &system)?;
        }
        for needless in ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl", "usr/lib/python3"] {
            self.remove(&format!("system/{needless}"))?;
        }
        lay_system(&system)?;
        make_keys(&system)?;
        make_disk(&self.system(), &system, SYSTEM_SIZE)?;
        self.remove("system")?;
        self.remove("lists")
    }

    /// A kernel, its modules beside those of others, and what it starts from.
    fn fetch_kernel(&self, kernel: &Kernel, lists: &Path, system: &Path) -> Result {
        println!("fetching Linux {} (once)", kernel.name);
        let unpacked = self.dir.join("kernel");
        self.remove("kernel")?;
        Release::fetch(kernel.suite, lists)?.unpack_meant_by("linux-image-cloud-amd64", &unpacked)?;
        let modules = [unpacked.join("lib/modules"), unpacked.join("usr/lib/modules")];
        let modules = modules.iter().find(|dir| dir.exists()).ok_or("the kernel has no modules")?;
        let version = only_entry(modules)?;
        let image = unpacked.join("boot").join(format!("vmlinuz-{version}"));
        rename(&image, &self.kernel(kernel))?;
        let place = system.join("lib/modules");
        shell::make_dir(&place)?;
        rename(&modules.join(&version), &place.join(&version))?;
        shell::run(shell::command("depmod").arg("--basedir").arg(system).arg(&version))?;
        self.make_first(kernel, system, &place.join(&version))?;
        self.remove("kernel")
    }

    /// The archive from which the kernel starts: busybox, the modules for the disk and a script.
    fn make_first(&self, kernel: &Kernel, system: &Path, modules: &Path) -> Result {
        let dir = self.dir.join("first");
        self.remove("first")?;
        for part in ["bin", "dev", "modules", "system"] {
            shell::make_dir(&dir.join(part))?;
        }
        shell::copy(&system.join("bin/busybox"), &dir.join("bin/busybox"))?;
        let mut script = String::from("#!/bin/busybox sh\nset -e\nbusybox mount -t devtmpfs dev /dev\n");
        for (number, module) in in_order(modules)?.iter().enumerate() {
            let name = format!("modules/{number}.ko");
            shell::copy(&modules.join(module), &dir.join(&name))?;
            script += &format!("busybox insmod /{name}\n");
        }
        // The device nodes go along: the system has a directory for them and nothing in it.
        script += "busybox mount -t ext4 /dev/vda /system\nbusybox mount -t ext4 -o ro /dev/vdb /system/lab\n";
        script += "busybox mount -o move /dev /system/dev\nexec busybox switch_root /system /lab/haul-vmlab\n";
        let init = dir.join("init");
        shell::write(&init, &script)?;
        shell::make_executable(&init)?;
        // cpio(1) reads names from standard input, which a shell is shortest for.
        let pack = format!("find . | cpio --quiet -o -H newc > '{}'", self.first(kernel).display());
        shell::run(shell::command("sh").args(["-c", &pack]).current_dir(&dir))?;
        self.remove("first")
    }
}

/// The first modules and what they need, each after what it needs.
fn in_order(modules: &Path) -> Result<Vec<String>> {
    let file = modules.join("modules.dep");
    let text = fs::read_to_string(&file).map_err(shell::at(&file))?;
    let mut order: Vec<String> = Vec::new();
    for wanted in FIRST_MODULES {
        let suffix = format!("/{wanted}.ko");
        let line = text.lines().find_map(|line| line.split_once(':').filter(|(path, _)| path.contains(&suffix)));
        // What is no module is in the kernel.
        let Some((path, needed)) = line else { continue };
        // depmod names what is needed first last.
        for module in needed.split_whitespace().rev().chain([path]) {
            if !order.iter().any(|there| there == module) {
                order.push(module.to_owned());
            }
        }
    }
    Ok(order)
}

/// What the scripts of the packages would have made, as far as it is needed.
fn lay_system(system: &Path) -> Result {
    for dir in ["dev", "proc", "sys", "run", "tmp", "lab", "etc", "root", "var/run", "var/log/samba"] {
        shell::make_dir(&system.join(dir))?;
    }
    for dir in ["var/lib/nfs/v4recovery", "var/lib/nfs/nfsdcld", "var/lib/nfs/rpc_pipefs", "var/lib/samba/private"] {
        shell::make_dir(&system.join(dir))?;
    }
    let files = [
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534:sshd:/run/sshd:/bin/false\n\
             nobody:x:65534:65534:nobody:/:/bin/false\n",
        ),
        ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        (
            "etc/ssh/sshd_config",
            "PermitRootLogin prohibit-password\nStrictModes no\nUseDNS no\nUsePAM no\nMaxStartups 100\n\
             HostKey /root/.ssh/id_ed25519\nSetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin:/lab LC_ALL=C\n",
        ),
        ("etc/ssh/ssh_config", "Host *\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"),
        ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ("etc/hosts", "127.0.0.1 localhost guest\n"),
        ("etc/netconfig", "tcp tpi_cots_ord v inet tcp - -\nudp tpi_clts v inet udp - -\n"),
        ("var/lib/nfs/etab", ""),
        ("var/lib/nfs/rmtab", ""),
    ];
    files.iter().try_for_each(|(name, text)| shell::write(&system.join(name), text))
}

/// One key for everything: all guests are this system, and nobody else can reach them.
fn make_keys(system: &Path) -> Result {
    let dir = system.join("root/.ssh");
    shell::make_dir(&dir)?;
    let key = dir.join("id_ed25519");
    // The guest's own program: this machine need not have it.
    let mut generate = shell::command(system.join("usr/bin/ssh-keygen"));
    shell::run(generate.args(["-q", "-t", "ed25519", "-N", "", "-C", "guest", "-f"]).arg(&key))?;
    shell::copy(&dir.join("id_ed25519.pub"), &dir.join("authorized_keys"))
}

/// An image with an ext4 filesystem that holds a directory.
pub fn make_disk(image: &Path, dir: &Path, size: u64) -> Result {
    let failed = shell::at(image);
    let file = File::create(image).map_err(failed)?;
    file.set_len(size).map_err(failed)?;
    let options = ["-q", "-F", "-E", "root_owner=0:0,lazy_itable_init=1,nodiscard", "-d"];
    shell::run(shell::command("mkfs.ext4").args(options).arg(dir).arg(image))
}

fn only_entry(dir: &Path) -> Result<String> {
    let name = shell::entries(dir)?.into_iter().next().ok_or_else(|| format!("{} is empty", dir.display()))?;
    Ok(name.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

fn rename(from: &Path, to: &Path) -> Result {
    fs::rename(from, to).map_err(|error| format!("{} -> {}: {error}", from.display(), to.display()))
}
