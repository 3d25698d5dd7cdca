use std::collections::BTreeSet;

use haul_sys::inode::{DeviceNumber, FileId, Inode, Time};

use super::*;
use crate::plan::{Delete, Durable, Preserve};

/// What the source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// A file, links followed, as without options.
    File,
    /// The others as with `-r`.
    TreeFile,
    Directory,
    Link,
    Fifo,
}

/// What stands at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    File,
    FileOfTwoNames,
    Fifo,
    Directory,
    LinkToFile,
    LinkToDirectory,
    LinkToNothing,
    /// The same name in the same directory.
    Source,
    OtherNameOfSource,
    LinkToSource,
}

const FROM: [From; 5] = [From::File, From::TreeFile, From::Directory, From::Link, From::Fifo];
const TO: [To; 10] = [
    To::File,
    To::FileOfTwoNames,
    To::Fifo,
    To::Directory,
    To::LinkToFile,
    To::LinkToDirectory,
    To::LinkToNothing,
    To::Source,
    To::OtherNameOfSource,
    To::LinkToSource,
];

fn inode(kind: Kind, number: u64, seconds: i64) -> Inode {
    let device = DeviceNumber { major: 8, minor: 1 };
    let modified = Time { seconds, nanoseconds: 0 };
    Inode { id: FileId::new(device, number), kind, modified, ..Inode::just_made(device) }
}

/// A source, a destination, and what is to be said of them.
struct World {
    from: From,
    to: To,
    source: Inode,
    /// None: nothing is seen through this link.
    existing: Option<Existing>,
    dereference: Dereference,
    answers: Answers,
    is_operand: bool,
}

impl World {
    fn new(from: From, to: To, plan: &Plan) -> World {
        let kind = match from {
            From::File | From::TreeFile => Kind::Regular,
            From::Directory => Kind::Directory,
            From::Link => Kind::SymbolicLink,
            From::Fifo => Kind::Fifo,
        };
        let mut source = inode(kind, 1, 100);
        if to == To::OtherNameOfSource {
            source.links = 2;
        }
        let link = inode(Kind::SymbolicLink, 9, 50);
        let (entry, behind) = match to {
            To::File => (inode(Kind::Regular, 2, 50), None),
            To::FileOfTwoNames => (Inode { links: 2, ..inode(Kind::Regular, 2, 50) }, None),
            To::Fifo => (inode(Kind::Fifo, 2, 50), None),
            To::Directory => (inode(Kind::Directory, 2, 50), None),
            To::LinkToFile => (link, Some(Some(inode(Kind::Regular, 2, 50)))),
            To::LinkToDirectory => (link, Some(Some(inode(Kind::Directory, 2, 50)))),
            To::LinkToNothing => (link, Some(None)),
            To::Source | To::OtherNameOfSource => (source, None),
            To::LinkToSource => (link, Some(Some(source))),
        };
        let target = match behind {
            Some(target) if !acts_on_entry(kind, plan, plan.delete.is_none()) => target,
            _ => Some(entry),
        };
        let leads_to = |entry: &Inode, behind: Option<Option<Inode>>| match behind {
            None => Some(entry.id),
            Some(target) => target.map(|target| target.id),
        };
        // A link at the source leads to a file that is nowhere else in this world.
        let of_source = if from == From::Link { Some(FileId::new(source.id.device(), 7)) } else { Some(source.id) };
        let of_dest = match (from, to) {
            (From::Link, To::Source | To::OtherNameOfSource) => of_source,
            _ => leads_to(&entry, behind),
        };
        let look = CloseLook {
            one_entry: to == To::Source,
            one_path: to == To::Source,
            entries: Some([source, entry]),
            same_target: of_source.zip(of_dest).map(|(one, other)| one == other),
        };
        let answers = Answers {
            close_look: Some(look),
            same_contents: Some(false),
            offline: Some(false),
            overwrite: Some(true),
            made_for_operand: Some(false),
            identity: Some(Identity::Two),
            backup_is_source: Some(false),
            kept_for_other: Some(false),
        };
        let dereference = if from == From::File { Dereference::Always } else { Dereference::Never };
        let existing = target.map(|target| Existing { entry, target, is_dot: false });
        World { from, to, source, existing, dereference, answers, is_operand: true }
    }

    fn source(&self) -> Source<'_> {
        Source { inode: &self.source, dereference: self.dereference, is_operand: self.is_operand }
    }

    /// What is decided if all is known.
    fn decision(&self, plan: &Plan) -> Option<Decision> {
        Some(decide(&self.source(), self.existing.as_ref()?, &self.answers, plan))
    }

    /// The same, each fact given when it is asked for; and the facts.
    fn asked(&self, plan: &Plan) -> Option<(Decision, Vec<Fact>)> {
        let existing = self.existing.as_ref()?;
        let (mut known, mut asked) = (Answers::default(), Vec::new());
        loop {
            let fact = match decide(&self.source(), existing, &known, plan) {
                Decision::Ask(fact) => fact,
                decision => return Some((decision, asked)),
            };
            assert!(!asked.contains(&fact), "{fact:?} is asked twice");
            asked.push(fact);
            match fact {
                Fact::CloseLook => known.close_look = self.answers.close_look,
                Fact::Contents => known.same_contents = self.answers.same_contents,
                Fact::Offline => known.offline = self.answers.offline,
                Fact::Overwrite => known.overwrite = self.answers.overwrite,
                Fact::MadeForOperand => known.made_for_operand = self.answers.made_for_operand,
                Fact::Identity => known.identity = self.answers.identity,
                Fact::BackupIsSource => known.backup_is_source = self.answers.backup_is_source,
                Fact::KeptForOther => known.kept_for_other = self.answers.kept_for_other,
            }
        }
    }
}

/// A plan of this source, as the command makes it.
fn plan_for(from: From) -> Plan {
    match from {
        From::File => Plan::default(),
        _ => Plan { recursive: true, dereference: Dereference::Never, ..Plan::default() },
    }
}

/// A column of the table: its name, and what it changes.
type Column = (&'static str, fn(&mut Plan, &mut World));

const COLUMNS: [Column; 24] = [
    ("plain", |_, _| {}),
    ("-n", |plan, _| plan.overwrite = Overwrite::Skip),
    ("none-fail", |plan, _| plan.overwrite = Overwrite::Refuse),
    ("-i: yes", |plan, _| plan.overwrite = Overwrite::Ask),
    ("-i: no", |plan, world| {
        plan.overwrite = Overwrite::Ask;
        world.answers.overwrite = Some(false);
    }),
    ("-u, newer", |plan, _| plan.update = Update::Older),
    ("-u, older", |plan, world| {
        plan.update = Update::Older;
        world.source.modified.seconds = 10;
    }),
    ("changed: time", |plan, _| plan.update = Update::Changed),
    ("changed: size", |plan, world| {
        plan.update = Update::Changed;
        world.source.modified.seconds = 50;
        world.source.size = 1;
    }),
    ("changed: no", |plan, world| {
        plan.update = Update::Changed;
        world.source.modified.seconds = 50;
        world.answers.same_contents = Some(true);
    }),
    ("content: yes", |plan, _| plan.update = Update::Content),
    ("content: no", |plan, world| {
        plan.update = Update::Content;
        world.answers.same_contents = Some(true);
    }),
    ("--backup", |plan, _| plan.backup = Backup::Simple),
    ("numbered", |plan, _| plan.backup = Backup::Numbered),
    ("-l", |plan, _| plan.link = LinkMode::Hard),
    ("-s", |plan, _| plan.link = LinkMode::Symbolic),
    ("--preserve=links", |plan, _| plan.preserve = Preserve { links: true, ..Preserve::default() }),
    ("--remove-destination", |plan, _| plan.remove_destination = true),
    ("--attributes-only", |plan, _| plan.attributes_only = true),
    ("--atomic", |plan, _| plan.atomic = true),
    ("--delete", |plan, world| {
        plan.delete = Some(Delete::default());
        world.is_operand = false;
    }),
    ("--delete -u, older", |plan, world| {
        plan.delete = Some(Delete::default());
        plan.update = Update::Older;
        world.is_operand = false;
        world.source.modified.seconds = 10;
    }),
    ("moved, content: no", |plan, world| {
        plan.moves = true;
        plan.update = Update::Content;
        world.answers.same_contents = Some(true);
        world.answers.made_for_operand = Some(true);
    }),
    ("doubtful", |_, world| world.answers.identity = Some(Identity::Doubtful)),
];

/// A world and a plan with a column's change.
fn with(from: From, to: To, change: fn(&mut Plan, &mut World)) -> (World, Plan) {
    let mut plan = plan_for(from);
    // The plan says what a link at the destination counts as.
    change(&mut plan, &mut World::new(from, to, &Plan::default()));
    let mut world = World::new(from, to, &plan);
    change(&mut plan, &mut world);
    (world, plan)
}

fn words(decision: Option<Decision>) -> String {
    match decision {
        None => "make".into(),
        Some(Decision::Nothing) => "nothing".into(),
        Some(Decision::Keep(kept)) => format!("keep: {kept:?}"),
        Some(Decision::Refuse(conflict)) => format!("refuse: {conflict:?}"),
        Some(Decision::WriteInto(_)) => "write".into(),
        Some(Decision::Remove) => "remove".into(),
        Some(Decision::Delete(_)) => "delete".into(),
        Some(Decision::Replace(_)) => "replace".into(),
        Some(Decision::BackUp { link: true, .. }) => "back up by link".into(),
        Some(Decision::BackUp { link: false, .. }) => "back up".into(),
        Some(Decision::Ask(fact)) => format!("ask: {fact:?}"),
    }
}

/// The table: for each source and destination what is decided plainly, and the columns in which something else is.
fn table() -> String {
    let mut text = String::new();
    for from in FROM {
        for to in TO {
            let cell = |change| {
                let (world, plan) = with(from, to, change);
                words(world.asked(&plan).map(|(decision, _)| decision))
            };
            let plain = cell(COLUMNS[0].1);
            text += &format!("{from:?} to {to:?}: {plain}\n");
            for (name, change) in COLUMNS {
                let words = cell(change);
                if words != plain {
                    text += &format!("    {name}: {words}\n");
                }
            }
        }
    }
    text
}

#[test]
fn every_source_meets_every_destination_as_the_table_says() {
    let table = table();
    assert!(table == include_str!("table.txt"), "what is decided now:\n{table}");
}

/// Calls something with each combination of all options that decide, for each source and destination.
fn for_all(mut check: impl FnMut(&World, &Plan)) {
    let overwrite = [Overwrite::Replace, Overwrite::Ask, Overwrite::Skip, Overwrite::Refuse];
    let backup = [Backup::None, Backup::Simple, Backup::Existing, Backup::Numbered];
    let link = [LinkMode::Copy, LinkMode::Hard, LinkMode::Symbolic];
    let update = [Update::All, Update::Older, Update::Changed, Update::Content];
    for choice in 0..1_usize << 16 {
        let flag = |bit: usize| choice >> (6 + bit) & 1 == 1;
        let link = match choice >> 4 & 3 {
            3 => continue,
            index => link[index],
        };
        for (from, to) in FROM.iter().flat_map(|from| TO.iter().map(move |to| (*from, *to))) {
            let plan = Plan {
                overwrite: overwrite[choice & 3],
                backup: backup[choice >> 2 & 3],
                link,
                update: update[choice >> 6 & 1 | choice >> 14 & 2],
                preserve: Preserve { links: flag(1), ..Preserve::default() },
                remove_destination: flag(2),
                attributes_only: flag(3),
                atomic: flag(4),
                durable: if flag(5) { Durable::File } else { Durable::None },
                ..plan_for(from)
            };
            let mut world = World::new(from, to, &plan);
            world.answers.overwrite = Some(flag(6));
            world.answers.identity = Some(if flag(7) { Identity::Doubtful } else { Identity::Two });
            if flag(8) {
                world.source.modified.seconds = 10;
                world.answers.same_contents = Some(true);
            }
            check(&world, &plan);
        }
    }
}

#[test]
fn what_differs_first_is_the_reason() {
    let cell = |name: &str| {
        let change = COLUMNS.iter().find(|(column, _)| *column == name).expect("a column").1;
        let (world, plan) = with(From::TreeFile, To::File, change);
        reason(&world.source(), world.existing.as_ref().unwrap(), &world.answers, &plan)
    };
    for (name, expected) in [
        ("plain", Reason::Any),
        ("-n", Reason::Exists),
        ("-i: yes", Reason::Any),
        ("-u, newer", Reason::Older),
        ("-u, older", Reason::NotOlder),
        ("changed: time", Reason::TimeDiffers),
        ("changed: size", Reason::SizeDiffers),
        ("changed: no", Reason::SameSizeAndTime),
        ("content: yes", Reason::ContentsDiffer),
        ("content: no", Reason::SameContents),
    ] {
        assert_eq!(cell(name), expected, "{name}");
    }
    let plan = Plan { update: Update::Changed, ..plan_for(From::TreeFile) };
    let world = World::new(From::TreeFile, To::Fifo, &plan);
    let reason = reason(&world.source(), world.existing.as_ref().unwrap(), &world.answers, &plan);
    assert_eq!(reason, Reason::TypeDiffers);
}

#[test]
fn the_reason_is_one_to_stay_exactly_where_the_file_is_kept() {
    for_all(|world, plan| {
        let Some(existing) = world.existing.filter(|_| world.from != From::Directory) else { return };
        let why = match reason(&world.source(), &existing, &world.answers, plan) {
            Reason::NotOlder => Some(Kept::NotOlder),
            Reason::SameSizeAndTime | Reason::SameContents | Reason::SameType => Some(Kept::Same),
            Reason::Exists => Some(Kept::Protected),
            _ => None,
        };
        match world.decision(plan) {
            Some(Decision::Keep(Kept::Declined)) => assert_eq!(why, None),
            Some(Decision::Keep(kept)) => assert_eq!(why, Some(kept), "{plan:?}"),
            Some(Decision::Refuse(What::NotReplacing)) => assert_eq!(why, Some(Kept::Protected)),
            // The source itself is no matter of reasons.
            Some(Decision::Refuse(What::SameFile)) => {}
            decision => assert_eq!(why, None, "{:?} to {:?}: {decision:?}, {plan:?}", world.from, world.to),
        }
    });
}

#[test]
fn what_is_asked_for_one_by_one_decides_as_if_all_were_known() {
    let mut seen = BTreeSet::new();
    for_all(|world, plan| {
        let Some((decision, asked)) = world.asked(plan) else { return };
        assert_eq!(Some(decision), world.decision(plan), "{:?} to {:?}, {plan:?}", world.from, world.to);
        seen.extend(asked.iter().map(|fact| format!("{fact:?}")));
    });
    assert_eq!(seen.len(), 7, "facts that were asked for: {seen:?}");
}

#[test]
fn a_file_of_one_name_that_is_its_own_destination_is_never_touched() {
    for_all(|world, plan| {
        if world.to != To::Source || !matches!(world.from, From::File | From::TreeFile) {
            return;
        }
        let decision = world.decision(plan);
        let harmless = matches!(decision, Some(Decision::Refuse(_) | Decision::Nothing | Decision::Keep(_)));
        assert!(harmless, "{decision:?}, {plan:?}");
    });
}

#[test]
fn nothing_is_written_into_the_source() {
    for_all(|world, plan| {
        let Some(existing) = &world.existing else { return };
        let may_write = matches!(world.decision(plan), Some(Decision::WriteInto(_)));
        let is_source = existing.target.id == world.source.id && world.from != From::Directory;
        assert!(!(may_write && is_source), "{:?} to {:?}, {plan:?}", world.from, world.to);
    });
}

#[test]
fn a_fifo_is_not_written_into_where_special_files_are_refused() {
    for_all(|world, plan| {
        let plan = Plan { special_files: SpecialFiles::Refused, ..plan.clone() };
        let Some(existing) = world.existing.filter(|existing| existing.target.kind == Kind::Fifo) else { return };
        let decision = world.decision(&plan);
        assert!(!matches!(decision, Some(Decision::WriteInto(_))), "{existing:?}: {decision:?}, {plan:?}");
    });
    let plan = Plan { special_files: SpecialFiles::Refused, ..plan_for(From::TreeFile) };
    let world = World::new(From::TreeFile, To::Fifo, &plan);
    assert_eq!(world.decision(&plan), Some(Decision::Refuse(What::IntoFifo)));
}

#[test]
fn a_directory_at_the_destination_is_entered_or_left_alone() {
    for_all(|world, plan| {
        let Some(existing) = world.existing.filter(|existing| existing.target.kind == Kind::Directory) else { return };
        let entered = match world.decision(plan) {
            Some(Decision::WriteInto(_)) => true,
            Some(Decision::Refuse(_) | Decision::Nothing | Decision::Keep(_)) => false,
            other => panic!("{existing:?}: {other:?}"),
        };
        assert!(!entered || world.from == From::Directory);
    });
}

#[test]
fn what_the_user_has_named_is_never_in_the_way() {
    let mut deleted = 0;
    for_all(|world, plan| {
        let plan = Plan { delete: Some(Delete::default()), ..plan.clone() };
        let decision = world.decision(&plan);
        assert!(!matches!(decision, Some(Decision::Delete(_))), "{:?} to {:?}", world.from, world.to);
        let below = Source { is_operand: false, ..world.source() };
        let decision = world.existing.as_ref().map(|existing| decide(&below, existing, &world.answers, &plan));
        deleted += u32::from(matches!(decision, Some(Decision::Delete(_))));
    });
    assert!(deleted > 0, "what was not named is");
}

#[test]
fn what_is_protected_stays_whatever_else_is_asked() {
    for_all(|world, plan| {
        let protected = matches!(plan.overwrite, Overwrite::Skip | Overwrite::Refuse);
        if !protected || world.from == From::Directory || world.existing.is_none() {
            return;
        }
        let decision = world.decision(plan);
        let stays = matches!(decision, Some(Decision::Keep(_) | Decision::Refuse(What::NotReplacing)));
        assert!(stays, "{decision:?}, {plan:?}");
    });
}

#[test]
fn nobody_is_asked_about_a_file_that_is_up_to_date_or_protected() {
    for_all(|world, plan| {
        let Some((decision, asked)) = world.asked(plan) else { return };
        let no_question = matches!(decision, Decision::Keep(Kept::NotOlder | Kept::Same | Kept::Protected));
        assert!(!(no_question && asked.contains(&Fact::Overwrite)), "{plan:?}");
    });
}

#[test]
fn what_an_archive_has_is_neither_read_nor_asked_about() {
    let mut left = 0;
    for_all(|world, plan| {
        let Some(existing) = &world.existing else { return };
        let of = |offline| {
            let answers = Answers { offline, ..world.answers };
            decide(&world.source(), existing, &answers, &Plan { skip_offline: true, ..plan.clone() })
        };
        let there = decide(&world.source(), existing, &world.answers, plan);
        assert_eq!(of(Some(false)), there, "{plan:?}");
        if of(None) == there {
            assert_eq!(of(Some(true)), there, "{plan:?}");
        } else {
            left += 1;
            assert_eq!((of(None), of(Some(true))), (Decision::Ask(Fact::Offline), Decision::Keep(Kept::Offline)));
            let removed = plan.moves && there == Decision::Keep(Kept::Same);
            let kept = matches!(there, Decision::Keep(_) | Decision::Nothing | Decision::Refuse(_));
            assert!(removed || !kept, "{there:?}");
        }
    });
    assert!(left > 0, "some are read");
}

#[test]
fn what_may_be_the_source_or_is_replaced_at_once_keeps_its_name_until_then() {
    for_all(|world, plan| {
        let stays = plan.uses_temporary_file() || world.answers.identity == Some(Identity::Doubtful);
        if !stays || world.from == From::Directory || plan.attributes_only {
            return;
        }
        let decision = world.decision(plan);
        let goes = matches!(decision, Some(Decision::Remove | Decision::BackUp { link: false, .. }));
        assert!(!goes, "{:?} to {:?}: {decision:?}, {plan:?}", world.from, world.to);
    });
}

#[test]
fn what_was_made_for_an_earlier_operand_is_not_overwritten_but_with_numbered_backups() {
    for backup in [Backup::None, Backup::Simple, Backup::Existing, Backup::Numbered] {
        let plan = Plan { backup, ..Plan::default() };
        let mut world = World::new(From::File, To::File, &plan);
        world.answers.made_for_operand = Some(true);
        let refused = world.decision(&plan) == Some(Decision::Refuse(What::JustCreated));
        assert_eq!(refused, backup != Backup::Numbered, "{backup:?}");
    }
}

#[test]
fn a_backup_never_takes_the_name_of_the_source() {
    for backup in [Backup::Simple, Backup::Existing] {
        let plan = Plan { backup, ..Plan::default() };
        let mut world = World::new(From::File, To::File, &plan);
        world.answers.backup_is_source = Some(true);
        assert_eq!(world.decision(&plan), Some(Decision::Refuse(What::BackupWouldDestroySource)), "{backup:?}");
    }
}

#[test]
fn two_sources_are_not_left_as_one_file() {
    for (update, links, other, kept) in [
        (Update::Changed, 2, Some(false), true),
        (Update::Changed, 2, Some(true), false),
        (Update::Content, 2, Some(true), false),
        // Nobody else can have found it.
        (Update::Changed, 1, None, true),
        // It is left alone as it is, not as a copy.
        (Update::Older, 2, None, true),
    ] {
        let plan = Plan { update, ..plan_for(From::TreeFile) };
        let mut world = World::new(From::TreeFile, To::FileOfTwoNames, &plan);
        world.source.modified.seconds = 50;
        (world.answers.same_contents, world.answers.kept_for_other) = (Some(true), other);
        world.existing.as_mut().unwrap().entry.links = links;
        world.existing.as_mut().unwrap().target.links = links;
        let decision = world.decision(&plan).unwrap();
        assert_eq!(matches!(decision, Decision::Keep(_)), kept, "{update:?} {links} {other:?} {decision:?}");
        assert!(kept || decision == Decision::Remove, "{decision:?}");
        let plan = Plan { attributes_only: true, ..plan };
        world.answers.kept_for_other = None;
        assert!(matches!(world.decision(&plan), Some(Decision::Keep(_))), "{update:?}: without contents");
    }
}

#[test]
fn dot_and_dot_dot_get_no_backup() {
    let plan = Plan { backup: Backup::Numbered, recursive: true, ..Plan::default() };
    let mut world = World::new(From::Directory, To::Directory, &plan);
    if let Some(existing) = &mut world.existing {
        existing.is_dot = true;
    }
    assert_eq!(world.decision(&plan), Some(Decision::WriteInto(Identity::Two)));
}

#[test]
fn what_is_moved_takes_the_place_of_what_stands_there() {
    let moved = |from, to| {
        let (world, plan) = with(from, to, |plan, _| plan.moves = true);
        words(world.asked(&plan).map(|(decision, _)| decision))
    };
    for to in [To::File, To::FileOfTwoNames, To::Fifo, To::LinkToFile, To::LinkToNothing, To::LinkToSource] {
        assert_eq!(moved(From::TreeFile, to), "replace", "{to:?}");
    }
    for to in [To::Source, To::OtherNameOfSource] {
        assert_eq!(moved(From::TreeFile, to), "refuse: SameFile", "{to:?}");
    }
    assert_eq!(moved(From::Link, To::OtherNameOfSource), "refuse: SameFile");
    assert_eq!(moved(From::TreeFile, To::Directory), "refuse: CannotOverwriteDirectory");
    assert_eq!(moved(From::Directory, To::Directory), "write");
}

#[test]
fn a_second_directory_of_one_name_is_not_moved_into_the_first() {
    let (world, plan) = with(From::Directory, To::Directory, |plan, world| {
        plan.moves = true;
        world.answers.made_for_operand = Some(true);
    });
    assert_eq!(world.decision(&plan), Some(Decision::Refuse(What::JustCreated)));
}
