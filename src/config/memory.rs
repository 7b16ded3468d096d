//! Divides the memory that this process may use among its caches, boxes and render threads, as far
//! as the settings do not. The manual has the formula (docs/sizing.md, "Memory").

use std::fmt;
use std::num::NonZeroUsize;

use config::Value;
use voltile_base::units;

use super::faults::{Fault, Notes};
use super::layers::value_of;
use super::settings::{Caches, Settings};

const MIB: u64 = 1 << 20;
/// Memory of the program, with open files and everything else that is not counted separately.
const PROGRAM: u64 = 48 * MIB;
/// Memory of a connection whose client reads nothing, with the parts of answers that the system
/// holds for it.
const CONNECTION: usize = 128 << 10;
/// Memory of two threads: a render thread, and the thread that replaces it while it waits for a
/// file that does not answer.
const THREAD: u64 = 2 * 14 * MIB;
/// Memory of the tiles that wait to be written to a tier, or to be verified before that.
const QUEUE: u64 = 32 * MIB;
/// The least memory for tiles and for connections; chunks and boxes get at least twice as much.
const LEAST: u64 = 16 * MIB;

/// The memory that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In bytes.
    pub bytes: u64,
    /// Whether a control group limits it to less than the machine has.
    pub is_limited: bool,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.is_limited {
            "the limit of the control group is"
        } else {
            "the machine has"
        };
        write!(f, "{whose} {}", units::bytes(self.bytes))
    }
}

/// Lowers the sizes in `settings` to what the memory allows, except the sizes that `tree`, the
/// configuration, sets. Returns why the memory is too small, if it is.
pub(super) fn divide(
    memory: Memory,
    tree: &Value,
    settings: &mut Settings,
    notes: &mut Notes,
) -> Option<Fault> {
    // A quarter, but not more than trials of files may take, is kept for these trials, losses of
    // the allocator, and the system's page cache.
    let reserve = (memory.bytes / 4).min(settings.files.trial_memory);
    settings.files.trial_memory = reserve;
    let usable = memory.bytes - reserve;
    if !is_given(tree, "render", "threads") {
        // Render threads take at most an eighth.
        let max_threads = usize::try_from(memory.bytes / 8 / THREAD)
            .ok()
            .and_then(NonZeroUsize::new)
            .unwrap_or(NonZeroUsize::MIN);
        settings.render.threads = settings.render.threads.min(max_threads);
    }
    let needed = PROGRAM + QUEUE * queues(&settings.cache);
    let total = share_out(usable, needed, tree, settings);
    if total <= usable {
        return None;
    }
    // One thread, and 6 times the least: the weights in `share_out` are 1, 1, 2 and 2.
    let least = needed + THREAD + LEAST * 6;
    let are_all_given = is_given(tree, "cache", "tiles")
        && is_given(tree, "cache", "chunks")
        && is_given(tree, "render", "boxes");
    if usable < least && !are_all_given {
        // The reserve takes a quarter: `least` remains of four thirds of `least`.
        let problem = format!(
            "{memory}, and at least {} are needed; allow more, or set cache.tiles, cache.chunks and render.boxes",
            units::bytes(least.div_ceil(3) * 4)
        );
        return Some(Fault::new("memory", problem));
    }
    let total = units::bytes(total);
    let reserve = units::bytes(reserve);
    let problem = format!(
        "{memory}, but caches, boxes, write queues, connections and render threads may take {total}, and trials of files {reserve}; \
         lower what is set of cache.tiles, cache.chunks, render.boxes, render.threads and server.connections, or allow more"
    );
    notes.warning("memory", problem);
    None
}

/// Shares `usable` bytes among the caches, boxes and connections whose sizes the configuration does
/// not set. Returns the total in bytes, including the `needed` bytes and the render threads.
fn share_out(usable: u64, needed: u64, tree: &Value, settings: &mut Settings) -> u64 {
    let mut connection_bytes = settings.server.connections.saturating_mul(CONNECTION);
    let sizes = [
        ("server", "connections", 1, &mut connection_bytes),
        ("cache", "tiles", 1, &mut settings.cache.tiles),
        ("cache", "chunks", 2, &mut settings.cache.chunks),
        ("render", "boxes", 2, &mut settings.render.boxes),
    ];
    let mut total = needed + THREAD * settings.render.threads.get() as u64;
    let mut unset = Vec::new();
    let mut weights = 0;
    for (table, key, weight, bytes) in sizes {
        if is_given(tree, table, key) {
            total = total.saturating_add(*bytes as u64);
        } else {
            unset.push((weight, bytes));
            weights += weight;
        }
    }
    // The share for a weight of 1.
    let unit = (usable.saturating_sub(total) / weights.max(1)).max(LEAST);
    for (weight, bytes) in unset {
        *bytes = usize::try_from(unit * weight).map_or(*bytes, |share| share.min(*bytes));
        total = total.saturating_add(*bytes as u64);
    }
    if !is_given(tree, "server", "connections") {
        settings.server.connections = connection_bytes / CONNECTION;
    }
    total
}

/// The number of queues of tiles: one for each tier, and if there is any tier, one for tiles that
/// are not yet verified.
fn queues(cache: &Caches) -> u64 {
    let has_directory = cache.directory.is_some() && cache.disk > 0;
    let tiers = u64::from(has_directory)
        + u64::from(cache.redis.is_some())
        + u64::from(cache.store.is_some());
    tiers + u64::from(tiers > 0)
}

/// Whether the configuration sets a key of a table.
fn is_given(tree: &Value, table: &str, key: &str) -> bool {
    value_of(value_of(Some(tree), table), key).is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Divides `bytes` of memory for one render thread and the `given` settings. Returns the
    /// settings, the shortage and the warnings.
    fn divided(
        bytes: u64,
        given: &[(&str, &str, u64)],
        mut settings: Settings,
    ) -> (Settings, Option<Fault>, Vec<Fault>) {
        settings.render.threads = NonZeroUsize::MIN;
        let mut tables: HashMap<String, HashMap<String, u64>> = HashMap::new();
        for (table, key, value) in given {
            tables
                .entry((*table).to_owned())
                .or_default()
                .insert((*key).to_owned(), *value);
            match *key {
                "tiles" => settings.cache.tiles = *value as usize,
                "chunks" => settings.cache.chunks = *value as usize,
                "boxes" => settings.render.boxes = *value as usize,
                _ => settings.render.threads = NonZeroUsize::new(*value as usize).unwrap(),
            }
        }
        let mut notes = Notes::default();
        let memory = Memory {
            bytes,
            is_limited: true,
        };
        let shortage = divide(memory, &Value::from(tables), &mut settings, &mut notes);
        (settings, shortage, notes.sorted().1)
    }

    fn sizes(settings: &Settings) -> [u64; 3] {
        [
            settings.cache.tiles,
            settings.cache.chunks,
            settings.render.boxes,
        ]
        .map(|bytes| bytes as u64 / MIB)
    }

    #[test]
    fn defaults_are_what_the_manual_says() {
        for (memory, expected, connections, trials) in [
            (GIB / 4, [19, 38, 38], 154, 64),
            (GIB / 2, [51, 102, 102], 410, 128),
            (GIB, [115, 230, 230], 922, 256),
            (4 * GIB, [499, 998, 998], 3994, 1024),
            (8 * GIB, [512, 1024, 2022], 4096, 2048),
            (256 * GIB, [512, 1024, 2048], 4096, 4096),
        ] {
            let (settings, shortage, warnings) = divided(memory, &[], Settings::default());
            assert_eq!(
                (sizes(&settings), shortage, warnings),
                (expected, None, vec![]),
                "{memory}"
            );
            assert_eq!(
                (
                    settings.server.connections,
                    settings.files.trial_memory / MIB
                ),
                (connections, trials)
            );
        }
    }

    #[test]
    fn threads_are_fewer_where_memory_is_little_unless_they_are_set() {
        let with = |bytes: u64, given: &[_]| {
            let mut settings = Settings::default();
            given
                .iter()
                .for_each(|threads| settings.render.threads = *threads);
            let mut notes = Notes::default();
            let memory = Memory {
                bytes,
                is_limited: false,
            };
            divide(
                memory,
                &Value::from(HashMap::<String, u64>::new()),
                &mut settings,
                &mut notes,
            );
            settings.render.threads.get()
        };
        let many = [NonZeroUsize::new(64).unwrap()];
        assert_eq!(
            [
                with(GIB, &many),
                with(8 * GIB, &many),
                with(64 * GIB, &many)
            ],
            [4, 36, 64]
        );
        let (settings, _, warnings) =
            divided(GIB, &[("render", "threads", 64)], Settings::default());
        assert_eq!((settings.render.threads.get(), warnings.len()), (64, 1));
    }

    #[test]
    fn what_is_set_wins_with_a_warning_if_it_exceeds_the_memory() {
        let (settings, shortage, warnings) =
            divided(GIB, &[("cache", "chunks", 100 * MIB)], Settings::default());
        assert_eq!(
            (sizes(&settings), shortage, warnings),
            ([148, 100, 296], None, vec![])
        );
        let (settings, shortage, warnings) =
            divided(GIB, &[("cache", "chunks", 2 * GIB)], Settings::default());
        assert_eq!((sizes(&settings), shortage), ([16, 2048, 32], None));
        assert!(
            warnings[0]
                .to_string()
                .starts_with("memory: the limit of the control group is 1.0 GiB"),
            "{warnings:?}"
        );
    }

    #[test]
    fn too_little_memory_is_an_error_that_says_how_much_is_needed() {
        let (_, shortage, _) = divided(GIB / 8, &[], Settings::default());
        assert!(shortage.unwrap().problem.contains("at least 229."));
        let mut settings = Settings::default();
        settings.cache.directory = Some("cache".into());
        assert!(
            divided(GIB / 4, &[], settings)
                .1
                .unwrap()
                .problem
                .contains("at least 314.")
        );
        assert_eq!(divided(230 * MIB, &[], Settings::default()).1, None);
        let all = [
            ("cache", "tiles", MIB),
            ("cache", "chunks", MIB),
            ("render", "boxes", MIB),
        ];
        assert_eq!(divided(GIB / 8, &all, Settings::default()).1, None);
    }
}
