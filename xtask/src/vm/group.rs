//! Three virtual machines that work together: a server, and two clients of it. One of these, the head, plays the cases, and
//! asks here for what a machine cannot do to another: take its power away, and give it back.
//!
//! Each two are joined by a wire of their own: a pair of sockets in the directory of the run, so that nothing of it is on any
//! network of this machine, and a wire can be missing while the others are there.

use std::ffi::OsString;
use std::time::Duration;

use super::boot::{Guest, Hardware};
use super::disks::Disks;
use super::machine::{Kernel, Machine};
use crate::shell::Result;

/// The machines. The last two are clients of the first.
const NAMES: [&str; 3] = ["server", "head", "client"];

const SERVER: usize = 0;

/// Plays the cases.
const HEAD: usize = 1;

/// Which machines have a wire between them. Network `10.0.N.0/24` is on the Nth of these, from 1 on.
const WIRES: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

/// All of them together may be emulated slowly.
const SILENCE: Duration = Duration::from_secs(600);

/// How long all cases may take at most.
const AT_MOST: Duration = Duration::from_secs(3 * 60 * 60);

/// The machines of one run.
pub struct Group<'a> {
    machine: &'a Machine,
    kernel: &'a Kernel,
    disks: &'a Disks,
    words: &'a str,
    guests: [Option<Guest>; 3],
}

impl<'a> Group<'a> {
    /// Machines that are off. The words are for the head, and the empty disk is the server's.
    pub fn new(machine: &'a Machine, kernel: &'a Kernel, disks: &'a Disks, words: &'a str) -> Group<'a> {
        Group { machine, kernel, disks, words, guests: [None, None, None] }
    }

    /// Switches all of them on, and does what the head asks for until it is done; all else that it says is handed over.
    pub fn play(mut self, mut heard: impl FnMut(&str)) -> Result<Duration> {
        for number in 0..NAMES.len() {
            self.switch_on(number)?;
        }
        loop {
            let Some(head) = self.guests[HEAD].as_mut() else { return Err("the head is off".into()) };
            if head.age() > AT_MOST {
                return Err(format!("the guests took longer than {} s", AT_MOST.as_secs()));
            }
            let Some(line) = head.hear(SILENCE)? else { break };
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["host", wish, name] => {
                    self.grant(wish, name)?;
                    self.guests[HEAD].as_mut().map_or(Ok(()), |head| head.tell("done"))?;
                }
                _ => heard(&line),
            }
        }
        self.guests[HEAD].take().map_or(Ok(Duration::ZERO), Guest::finish)
    }

    fn grant(&mut self, wish: &str, name: &str) -> Result {
        let number = NAMES.iter().position(|known| *known == name).filter(|number| *number != HEAD);
        let number = number.ok_or_else(|| format!("no machine {name:?} to {wish}"))?;
        match wish {
            "kill" => self.guests[number] = None,
            "boot" => self.switch_on(number)?,
            _ => return Err(format!("nobody can {wish:?} a machine")),
        }
        Ok(())
    }

    fn switch_on(&mut self, number: usize) -> Result {
        let name = NAMES[number];
        let words = format!("{} {}", words(number), if number == HEAD { self.words } else { "" });
        let Disks { dir, programs, scratch } = self.disks;
        let scratch = (number == SERVER).then_some(&**scratch);
        let more = wires(number);
        let hardware = Hardware { name, processors: 1, memory: 768, programs, scratch, words: &words, more, dir };
        // Another one has the same console and the same disk.
        self.guests[number] = None;
        self.guests[number] = Some(Guest::start(self.machine, self.kernel, &hardware)?);
        Ok(())
    }
}

/// The ends of wires that are in a machine, in their order, for QEMU. Their sockets have names without a directory, since the
/// path of a socket may not be long.
fn wires(number: usize) -> Vec<OsString> {
    let ends = ends(number).map(|(wire, _, peer)| {
        let (local, remote) = (NAMES[number], NAMES[peer]);
        let paths = format!("local.path={wire}-{local},remote.type=unix,remote.path={wire}-{remote}");
        [
            "-netdev".into(),
            format!("dgram,id=wire{wire},local.type=unix,{paths}"),
            "-device".into(),
            // Without a program to boot from it, which is in another package.
            format!("virtio-net-pci,netdev=wire{wire},mac=52:54:00:00:{wire:02x}:{number:02x},romfile="),
        ]
    });
    ends.flatten().map(OsString::from).collect()
}

/// The number of the wire, the other end's place on it and the other machine, for each wire of a machine.
fn ends(number: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (1..).zip(WIRES).filter_map(move |(wire, (one, other))| match number {
        _ if number == one => Some((wire, 2, other)),
        _ if number == other => Some((wire, 1, one)),
        _ => None,
    })
}

/// What a machine reads of itself and of the others: its name, the addresses of its ends of wires, in their order, and those
/// of the machines at the other ends.
fn words(number: usize) -> String {
    let mine: Vec<String> = ends(number).map(|(wire, theirs, _)| format!("10.0.{wire}.{}/24", 3 - theirs)).collect();
    let others: Vec<String> =
        ends(number).map(|(wire, theirs, peer)| format!("{}:10.0.{wire}.{theirs}", NAMES[peer])).collect();
    format!("haul.name={} haul.addresses={} haul.hosts={}", NAMES[number], mine.join(","), others.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_wire_know_each_other_by_the_same_addresses() {
        assert_eq!(
            [words(0), words(1), words(2)],
            [
                "haul.name=server haul.addresses=10.0.1.1/24,10.0.2.1/24 haul.hosts=head:10.0.1.2,client:10.0.2.2",
                "haul.name=head haul.addresses=10.0.1.2/24,10.0.3.1/24 haul.hosts=server:10.0.1.1,client:10.0.3.2",
                "haul.name=client haul.addresses=10.0.2.2/24,10.0.3.2/24 haul.hosts=server:10.0.2.1,head:10.0.3.1",
            ]
        );
    }
}
