//! Debian packages, fetched and unpacked without being installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, Result};

/// A release of Debian with lists of its own, beside those of this system.
pub struct Release {
    dir: PathBuf,
}

impl Release {
    /// Fetches the lists of a release.
    pub fn fetch(suite: &str, dir: &Path) -> Result<Release> {
        let release = Release { dir: dir.join(suite) };
        for part in ["lists/partial", "cache/archives/partial"] {
            shell::make_dir(&release.dir.join(part))?;
        }
        let key = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
        shell::write(&release.dir.join("sources.list"), &format!("deb [{key}] {} {suite} main\n", mirror()?))?;
        // Nothing is installed there, so all that a package needs is fetched with it.
        shell::write(&release.dir.join("status"), "")?;
        shell::run(release.apt("apt-get").args(["-o", "APT::Update::Error-Mode=any", "update"]))?;
        Ok(release)
    }

    fn apt(&self, program: &str) -> Command {
        let mut apt = shell::command(program);
        let at = |name: &str| self.dir.join(name).display().to_string();
        for option in [
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("cache")),
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=-".into(),
            "Debug::NoLocking=1".into(),
            "APT::Architecture=amd64".into(),
            "APT::Install-Recommends=0".into(),
            "APT::Sandbox::User=".into(),
            "Acquire::Languages=none".into(),
            "Acquire::Retries=3".into(),
        ] {
            apt.args(["-o", &option]);
        }
        if program == "apt-get" {
            apt.arg("--quiet=2");
        }
        apt
    }

    /// Unpacks packages, and all that they need, into a directory.
    pub fn unpack_with_needed(&self, names: &[&str], into: &Path) -> Result<usize> {
        shell::run(self.apt("apt-get").args(["--yes", "--download-only", "install"]).args(names))?;
        let archives = self.dir.join("cache/archives");
        let unpacked = unpack_all(&archives, into)?;
        fs::remove_dir_all(&archives).map_err(shell::at(&archives))?;
        Ok(unpacked)
    }

    /// Unpacks only the package that a package without contents stands for.
    pub fn unpack_meant_by(&self, name: &str, into: &Path) -> Result {
        let said = shell::output(self.apt("apt-cache").args(["depends", name]))?;
        let meant = said.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let meant = meant.ok_or_else(|| format!("{name} means no package"))?;
        let archives = self.dir.join("download");
        shell::make_dir(&archives)?;
        shell::run(self.apt("apt-get").args(["download", meant]).current_dir(&archives))?;
        unpack_all(&archives, into)?;
        fs::remove_dir_all(&archives).map_err(shell::at(&archives))
    }
}

fn unpack_all(archives: &Path, into: &Path) -> Result<usize> {
    shell::make_dir(into)?;
    let mut count = 0;
    for path in shell::entries(archives)? {
        if path.extension().is_some_and(|extension| extension == "deb") {
            shell::run(shell::command("dpkg-deb").arg("--extract").arg(&path).arg(into))?;
            count += 1;
        }
    }
    Ok(count)
}

/// The release of Debian that this system is: what is built here runs with its libraries.
pub fn this_release() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").map_err(|error| format!("/etc/os-release: {error}"))?;
    let value = |key: &str| release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    match (value("ID"), value("VERSION_CODENAME")) {
        (Some("debian"), Some(name)) => Ok(name.to_owned()),
        _ => Err("this is no Debian, whose packages the guest is made of".into()),
    }
}

/// Where this system has its Debian packages from.
pub fn mirror() -> Result<String> {
    let format = "$(CODENAME) $(LABEL) $(REPO_URI)";
    let targets = shell::output(shell::command("apt-get").args(["indextargets", "--format", format]))?;
    let wanted = format!("{} Debian ", this_release()?);
    let found = targets.lines().find_map(|line| line.strip_prefix(&wanted));
    found.map(str::to_owned).ok_or_else(|| "apt knows no mirror of Debian; `apt-get update` may help".to_owned())
}
