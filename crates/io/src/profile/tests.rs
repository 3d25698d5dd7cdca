//! What a profile says, and what is no profile.

use crate::engine::EngineName;
use proptest::prelude::*;

use super::types::{DEEPEST, MOST_JOBS};
use super::*;

fn place(id: &str) -> Place {
    Place { filesystem: "ext4".to_owned(), id: id.to_owned(), device: "disk, 1024 bytes".to_owned() }
}

fn setting(engine: EngineName) -> Setting {
    Setting { engine: Some(engine), buffer_size: Some(256 << 10), depth: None, workers: None }
}

fn entry(class: SizeClass, source: Option<Source>, engine: EngineName) -> Entry {
    Entry { class, source, setting: setting(engine), jobs: None, measured: Measured::default() }
}

fn of(id: &str, entries: Vec<Entry>) -> PlaceEntry {
    PlaceEntry {
        origin: "p".to_owned(),
        directory: "/d".to_owned(),
        place: place(id),
        entries,
        striping: Striping::default(),
    }
}

fn refused(text: &str) -> String {
    parse(text, "p").expect_err(text)
}

/// The text with the head that every profile has: two lines.
fn headed(text: &str) -> String {
    format!("format = \"haul-profile\"\nversion = 1\n{text}")
}

#[test]
fn every_mistake_is_reported_with_its_line_and_key() {
    let place = "[[place]]\nfilesystem = \"ext4\"\nid = \"x\"\n";
    let files = format!("{place}[[place.files]]\nsize = \"small\"\n");
    let stripes = format!("{place}[[place.stripes]]\n");
    for (text, line, key) in [
        ("", 1, "format"),
        ("{\"format\": 1}", 1, ""),
        ("format = 1", 1, "format"),
        ("format = \"other\"\n", 1, "format"),
        ("format = \"haul-profile\"", 1, "version"),
        ("format = \"haul-profile\"\nversion = 2\nanything = 1", 2, "version"),
        ("format = \"haul-profile\"\nversion = \"1\"", 2, "version"),
        (&headed("plaice = 1"), 3, "plaice"),
        (&headed("place = 1"), 3, "place"),
        (&headed("place = [1]"), 3, "place"),
        (&headed("[[place]]\nid = \"x\""), 3, "filesystem"),
        (&headed("[[place]]\nfilesystem = \"ext4\"\nid = \"\""), 5, "id"),
        (&headed(&format!("{place}device = 7")), 6, "device"),
        (&headed(&format!("{place}device = \"\\u0007\"")), 6, "device"),
        (&headed(&format!("{place}speed = 9")), 6, "speed"),
        (&headed(&format!("{place}[[place.files]]\njobs = 1")), 6, "size"),
        (&headed(&format!("{place}[[place.files]]\nsize = \"big\"")), 7, "size"),
        (&headed(&format!("{files}source = \"cold\"")), 8, "source"),
        (&headed(&format!("{files}engine = \"null\"")), 8, "engine"),
        (&headed(&format!("{files}engine = \"clone\"")), 8, "engine"),
        (&headed(&format!("{files}engine = \"reed-write\"")), 8, "engine"),
        (&headed(&format!("{files}bufer = 1")), 8, "bufer"),
        (&headed(&format!("{files}buffer = 0")), 8, "buffer"),
        (&headed(&format!("{files}buffer = \"65M\"")), 8, "buffer"),
        (&headed(&format!("{files}buffer = \"1G\"")), 8, "buffer"),
        (&headed(&format!("{files}buffer = \"+1K\"")), 8, "buffer"),
        (&headed(&format!("{files}buffer = \"é\"")), 8, "buffer"),
        (&headed(&format!("{files}buffer = 99999999999999999999999")), 8, "buffer"),
        (&headed(&format!("{files}depth = 33")), 8, "depth"),
        (&headed(&format!("{files}workers = -1")), 8, "workers"),
        (&headed(&format!("{files}jobs = 1.5")), 8, "jobs"),
        (&headed(&format!("{files}gain = nan")), 8, "gain"),
        (&headed(&format!("{files}jobs = 1\njobs = 2")), 9, "jobs"),
        (&headed(&format!("{files}[[place.files]]\nsize = \"small\"")), 9, "size"),
        (&headed(&format!("{files}jobs = ")), 8, "jobs"),
        (&headed(&format!("{place}stripes = 1")), 6, "stripes"),
        (&headed(&format!("{stripes}from = \"1G\"")), 6, "count"),
        (&headed(&format!("{stripes}count = 0")), 7, "count"),
        (&headed(&format!("{stripes}count = 2001")), 7, "count"),
        (&headed(&format!("{stripes}count = \"some\"")), 7, "count"),
        (&headed(&format!("{stripes}count = 1\nfrom = \"1E\"")), 8, "from"),
        (&headed(&format!("{stripes}count = 1\nfrom = \"9000000T\"")), 8, "from"),
        (&headed(&format!("{stripes}count = 1\nsize = 65535")), 8, "size"),
        (&headed(&format!("{stripes}count = 1\nsize = \"4G\"")), 8, "size"),
        (&headed(&format!("{stripes}count = 1\npool = \"\"")), 8, "pool"),
        (&headed(&format!("{stripes}count = 1\npool = \"sixteen_letters_\"")), 8, "pool"),
        (&headed(&format!("{stripes}count = 1\npool = \"a b\"")), 8, "pool"),
        (&headed(&format!("{stripes}as = \"target\"")), 7, "as"),
        (&headed(&format!("{stripes}as = \"source\"\ncount = 1")), 8, "count"),
        (&headed(&format!("{stripes}count = 1\n[[place.stripes]]\ncount = 2")), 9, "count"),
    ] {
        let message = refused(text);
        assert!(message.starts_with(&format!("line {line}")), "{text}\n{message}");
        assert!(key.is_empty() || message.contains(&format!("{key:?}")), "{text}\n{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    assert!(refused(&"#".repeat(LONGEST + 1)).contains("no profile"));
}

#[test]
fn two_entries_for_the_same_files_are_refused_only_where_they_meet() {
    let both = |first: &str, second: &str| {
        let files = |source: &str| format!("[[place.files]]\nsize = \"large\"\n{source}\n");
        let place = "[[place]]\nfilesystem = \"ext4\"\nid = \"x\"\n";
        parse(&headed(&format!("{place}{}{}", files(first), files(second))), "p").is_ok()
    };
    let (cold, cached) = ("source = \"cold\"", "source = \"cached\"");
    assert!(both(cold, cached));
    assert!(!both(cold, cold) && !both("", cold) && !both(cached, ""));
}

#[test]
fn what_is_written_by_hand_is_understood() {
    let text = headed(
        "# mine\n[[place]]\nfilesystem = \"fuse.sshfs\"\nid = \"mount:me@host: on /mnt\"\n\n[[place.files]]\nsize = \"tiny\"\njobs = 16\n\
         [[place.files]]\nsize = \"large\"\nsource = \"cold\"\nengine = \"read-write\"\nbuffer = 1048576\nworkers = 4\n",
    );
    let profile = parse(&text, "/p").expect("it is a profile");
    let [place] = &profile.places[..] else { panic!("{profile:?}") };
    assert_eq!((place.place.filesystem.as_str(), place.origin.as_str(), place.jobs()), ("fuse.sshfs", "/p", Some(16)));
    let preference = place.preference(SizeClass::Large);
    assert_eq!(preference.cached, None);
    let wanted = Setting { buffer_size: Some(1 << 20), workers: Some(4), ..setting(EngineName::ReadWrite) };
    assert_eq!(preference.setting(Some(Source::Cold)), Some(wanted));
    assert_eq!(preference.setting(None), None, "nobody knows whether it is cold");
    assert_eq!(place.preference(SizeClass::Tiny), Preference::default(), "jobs only");
}

#[test]
fn stripes_are_those_of_the_largest_size_that_is_reached() {
    let text = headed(
        "[[place]]\nfilesystem = \"lustre\"\nid = \"x\"\n[[place.stripes]]\nfrom = \"1G\"\ncount = 4\nsize = \"4M\"\n\
         [[place.stripes]]\nas = \"source\"\n[[place.stripes]]\nfrom = \"1T\"\ncount = \"all\"\npool = \"flash\"\n",
    );
    let profile = parse(&text, "p").expect("it is a profile");
    let striping = &profile.places[0].striping;
    let of = |size| striping.of_size(size).map(ToString::to_string);
    assert_eq!([of(0), of((1 << 30) - 1)], [None, None]);
    assert_eq!(of(1 << 30).as_deref(), Some("4 stripes of 4 MiB"));
    assert_eq!(of(1 << 40).as_deref(), Some("a stripe on each target in the pool flash"));
    assert_eq!((striping.as_source, profile.smallest_striped()), (true, Some(0)));
}

#[test]
fn what_was_measured_hides_no_stripes() {
    let with = |count| {
        let stripes = Stripes { from: 1 << 20, count: StripeCount::Of(count), size: None, pool: String::new() };
        let striping = Striping { as_source: false, by_size: vec![stripes] };
        PlaceEntry { striping, ..of("uuid:1", Vec::new()) }
    };
    let measured = || of("uuid:1", vec![entry(SizeClass::Tiny, None, EngineName::Splice)]);
    let both = Profile { places: vec![measured()] }.before(Profile { places: vec![with(2)] });
    let striping = |profile: &Profile| profile.striping_of(&place("uuid:1")).map(|entry| entry.striping.clone());
    assert_eq!(striping(&both), Some(with(2).striping));
    assert_eq!(both.smallest_striped(), Some(1 << 20));
    let mut own = Profile { places: vec![with(3)] };
    for found in [measured(), of("uuid:1", Vec::new())] {
        own.replace(found, &[(SizeClass::Tiny, None)]);
        assert_eq!(striping(&own), Some(with(3).striping));
    }
    assert_eq!(striping(&Profile { places: vec![measured()] }), None);
}

#[test]
fn classes_are_where_the_strategy_treats_files_differently() {
    for (size, class) in [
        (0, SizeClass::Tiny),
        ((64 << 10) - 1, SizeClass::Tiny),
        (64 << 10, SizeClass::Small),
        (4 << 20, SizeClass::Medium),
        (32 << 20, SizeClass::Large),
        ((2 << 30) - 1, SizeClass::Large),
        (2 << 30, SizeClass::Huge),
        (u64::MAX, SizeClass::Huge),
    ] {
        assert_eq!(SizeClass::of(size), class, "{size}");
    }
}

#[test]
fn only_the_same_storage_is_the_place_of_an_entry() {
    let entries = vec![entry(SizeClass::Tiny, None, EngineName::ReadWrite)];
    let profile = Profile { places: vec![of("uuid:1", entries)] };
    assert!(profile.of(&place("uuid:1")).is_some());
    assert!(profile.of(&place("uuid:2")).is_none());
    assert!(profile.of(&Place { device: "disk, 2048 bytes".to_owned(), ..place("uuid:1") }).is_none(), "a copied disk");
    assert!(profile.of(&Place { filesystem: "xfs".to_owned(), ..place("uuid:1") }).is_none());
}

#[test]
fn the_first_profile_counts_and_new_results_take_the_place_of_old_ones() {
    let with = |engine| of("uuid:1", vec![entry(SizeClass::Tiny, None, engine)]);
    let own = Profile { places: vec![with(EngineName::Splice)] };
    let system = Profile { places: vec![with(EngineName::Mapped), of("uuid:2", Vec::new())] };
    let both = own.before(system);
    let engine = |profile: &Profile| {
        profile.of(&place("uuid:1")).map(|place| place.preference(SizeClass::Tiny).cold.unwrap().engine.unwrap())
    };
    assert_eq!(engine(&both), Some(EngineName::Splice));
    assert!(both.of(&place("uuid:2")).is_some());
    let mut profile = both;
    profile.replace(with(EngineName::ReadWrite), &[(SizeClass::Tiny, None)]);
    assert_eq!((engine(&profile), profile.places.len()), (Some(EngineName::ReadWrite), 2));
    profile.replace(of("uuid:1", Vec::new()), &[]);
    assert_eq!(engine(&profile), Some(EngineName::ReadWrite), "nothing was searched for");
    profile.replace(of("uuid:1", Vec::new()), &[(SizeClass::Tiny, None)]);
    assert_eq!(engine(&profile), None, "nothing won this time");
}

#[test]
fn what_was_not_searched_for_again_stays() {
    let (large, cold) = (SizeClass::Large, Some(Source::Cold));
    let small = entry(SizeClass::Small, None, EngineName::Splice);
    let sources = |searched: &[Searched], old: Option<Source>, new: &[Entry]| {
        let old = of("uuid:1", vec![small.clone(), entry(large, old, EngineName::Mapped)]);
        let mut profile = Profile { places: vec![old] };
        profile.replace(of("uuid:1", new.to_vec()), searched);
        let entries = &profile.places[0].entries;
        assert_eq!(entries[0], small, "{searched:?}");
        entries[1..].iter().map(|entry| (entry.source, entry.setting.engine.unwrap())).collect::<Vec<_>>()
    };
    let (cached, mapped) = (Some(Source::Cached), EngineName::Mapped);
    assert_eq!(sources(&[], cold, &[]), [(cold, mapped)]);
    assert_eq!(sources(&[(large, cached)], cold, &[]), [(cold, mapped)]);
    assert_eq!(sources(&[(large, cold)], cold, &[]), []);
    assert_eq!(sources(&[(large, None)], cold, &[]), [], "all sources");
    assert_eq!(sources(&[(large, cold)], None, &[]), [(cached, mapped)], "half of what it was about");
    assert_eq!(sources(&[(large, cold), (large, cached)], None, &[]), []);
    let found = entry(large, cold, EngineName::ReadWrite);
    assert_eq!(sources(&[(large, cold)], None, &[found]), [(cold, EngineName::ReadWrite), (cached, mapped)]);
}

fn some_entry() -> impl Strategy<Value = Entry> {
    let engines: Vec<EngineName> = EngineName::ALL.into_iter().filter(|engine| may_be_preferred(*engine)).collect();
    let engine = prop::option::of(prop::sample::select(engines));
    let buffer = prop::option::of(1..=LARGEST_BUFFER);
    let counts = (prop::option::of(1..=DEEPEST), prop::option::of(1..=MOST_WORKERS), prop::option::of(1..=MOST_JOBS));
    let source = prop::option::of(prop::sample::select(vec![Source::Cached, Source::Cold]));
    let measured = ("[^\\p{Cc}]{0,12}", prop::option::of(-1e6..1e6_f64), prop::option::of(1..1000_u32));
    (prop::sample::select(SizeClass::ALL.to_vec()), source, engine, buffer, counts, measured).prop_map(
        |(class, source, engine, buffer_size, (depth, workers, jobs), (on, gain, runs))| Entry {
            class,
            source: source.filter(|_| class >= SizeClass::Medium),
            setting: Setting { engine, buffer_size, depth, workers },
            jobs,
            measured: Measured { date: "2026-11-22".to_owned(), on, gain, runs },
        },
    )
}

fn some_striping() -> impl Strategy<Value = Striping> {
    let count = prop_oneof![Just(StripeCount::All), (1..=2000_u16).prop_map(StripeCount::Of)];
    let stripes = (0..1_u64 << 50, count, prop::option::of(1..1000_u32), "[a-z0-9._-]{0,15}");
    let stripes = stripes.prop_map(|(from, count, units, pool)| Stripes {
        from,
        count,
        size: units.map(|units| units << 16),
        pool,
    });
    (any::<bool>(), prop::collection::vec(stripes, 0..3)).prop_map(|(as_source, mut by_size)| {
        by_size.dedup_by_key(|stripes| stripes.from);
        Striping { as_source, by_size }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read_again(
        entries in prop::collection::vec(some_entry(), 0..3),
        striping in some_striping(),
        id in "[^\\p{Cc}]{1,20}",
    ) {
        let mut entries = entries;
        entries.sort_by_key(|entry| entry.class);
        entries.dedup_by_key(|entry| entry.class);
        let first = PlaceEntry { striping, ..of(&id, entries) };
        let profile = Profile { places: vec![first, of("uuid:2", Vec::new())] };
        prop_assert_eq!(parse(&to_text(&profile), "p"), Ok(profile));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\PC|\n|\"){0,200}") {
        parse(&text, "p").map(drop).unwrap_or_default();
        parse(&headed(&text), "p").map(drop).unwrap_or_default();
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        entry in some_entry(),
        at in any::<prop::sample::Index>(),
        cut in 0..20_usize,
        put in "[\\[\\]\"=.#\n0-9a-z ]{0,6}",
    ) {
        let text = to_text(&Profile { places: vec![of("uuid:1", vec![entry])] });
        let places: Vec<usize> = (0..=text.len()).filter(|place| text.is_char_boundary(*place)).collect();
        let (start, end) = (at.index(places.len()), (at.index(places.len()) + cut).min(places.len() - 1));
        let damaged = format!("{}{put}{}", &text[..places[start]], &text[places[end]..]);
        if let Err(message) = parse(&damaged, "p") {
            prop_assert!(message.starts_with("line "), "{}", message);
        }
    }
}
