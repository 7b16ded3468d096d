//! The demo volume as a file: what is in it, and when it is made.

use std::os::unix::fs::MetadataExt;
use std::thread;

use hdf5::types::VarLenAscii;

use super::*;

/// Large enough for several chunks and a nucleus.
const SMALL: Extents = Extents { volume: [18, 140, 150], series: [3, 8, 60, 70] };

/// For when the voxels do not matter.
const TINY: Extents = Extents { volume: [2, 8, 9], series: [2, 1, 4, 5] };

/// A folder with a demo volume of this size in it.
fn volume(extents: &Extents) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.h5");
    ensure_sized(&path, extents).unwrap();
    (folder, path)
}

fn read<T: hdf5::H5Type>(path: &Path, name: &str) -> Vec<T> {
    hdf5::File::open(path).unwrap().dataset(name).unwrap().read_raw().unwrap()
}

/// FNV-1a of the numbers.
fn digest<T: Copy + Into<u64>>(numbers: &[T]) -> u64 {
    let mix = |digest: u64, &number: &T| (digest ^ number.into()).wrapping_mul(0x0100_0000_01B3);
    numbers.iter().fold(0xCBF2_9CE4_8422_2325, mix)
}

fn names_in(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn the_voxels_never_change() {
    let (_folder, path) = volume(&SMALL);
    let found = [
        digest(&read::<u8>(&path, "em")),
        digest(&read::<u16>(&path, "nuclei")),
        digest(&read::<u16>(&path, "actin")),
        digest(&read::<u32>(&path, "segmentation")),
        digest(&read::<u16>(&path, "time")),
    ];
    assert_eq!(
        found.map(|it| format!("{it:016x}")),
        ["61b5a32e9e5194e5", "a71cfab854a82d15", "b476ec565fc0eb35", "3a97d296d763f688", "b67501f7b9cd5235",],
        "where this is meant, raise VERSION"
    );
}

#[test]
fn the_channels_look_as_they_should() {
    let (_folder, path) = volume(&SMALL);
    let mean = |voxels: &[u8]| voxels.iter().map(|&it| f64::from(it)).sum::<f64>() / voxels.len() as f64;
    let em = read::<u8>(&path, "em");
    assert!((120.0..180.0).contains(&mean(&em)), "{}", mean(&em));
    let labels = read::<u32>(&path, "segmentation");
    for name in ["nuclei", "actin", "time"] {
        let voxels = read::<u16>(&path, name);
        assert_eq!(voxels.iter().min(), Some(&100), "{name}: the camera's offset");
        assert!(voxels.iter().max().is_some_and(|&it| it > 200 && it <= 4095), "{name}");
    }
    // Membranes are darker than cells in the micrograph, and brighter in the actin stain.
    let mean_where = |voxels: &[f64], inside: bool| {
        let chosen = voxels.iter().zip(&labels).filter(|(_, label)| (**label != 0) == inside);
        let (sum, count) = chosen.fold((0.0, 0.0), |(sum, count), (voxel, _)| (sum + voxel, count + 1.0));
        sum / count
    };
    let em: Vec<_> = em.into_iter().map(f64::from).collect();
    assert!(mean_where(&em, true) > mean_where(&em, false) + 20.0);
    let actin: Vec<_> = read::<u16>(&path, "actin").into_iter().map(f64::from).collect();
    assert!(mean_where(&actin, false) > mean_where(&actin, true) + 20.0);
}

#[test]
fn neighbouring_frames_are_alike() {
    let [_, depth, height, width] = SMALL.series;
    let (_folder, path) = volume(&SMALL);
    let voxels = read::<u16>(&path, "time");
    let frames: Vec<_> = voxels.chunks(depth * height * width).collect();
    let distance = |first: &[u16], second: &[u16]| -> u64 {
        first.iter().zip(second).map(|(&first, &second)| u64::from(first.abs_diff(second))).sum()
    };
    assert!(distance(frames[0], frames[1]) < distance(frames[0], frames[2]));
    assert!(distance(frames[1], frames[2]) < distance(frames[0], frames[2]));
}

#[test]
fn the_file_says_what_readers_want_to_know() {
    let (_folder, path) = volume(&SMALL);
    let file = hdf5::File::open(&path).unwrap();
    assert_eq!(file.attr(VERSION_ATTRIBUTE).unwrap().read_scalar::<u32>().unwrap(), VERSION);
    let mut names = file.member_names().unwrap();
    names.sort();
    assert_eq!(names, ["actin", "em", "nuclei", "segmentation", "time"]);
    for name in names {
        let dataset = file.dataset(&name).unwrap();
        let axes: Vec<VarLenAscii> = dataset.attr("DIMENSION_LABELS").unwrap().read_raw().unwrap();
        let axes: String = axes.iter().map(VarLenAscii::as_str).collect();
        let size = dataset.attr("element_size_um").unwrap().read_raw::<f64>().unwrap();
        let (expected_axes, expected_size, shape) = match name.as_str() {
            "time" => ("tzyx", [1.0, 0.2, 0.2], SMALL.series.to_vec()),
            _ => ("zyx", [0.030, 0.004, 0.004], SMALL.volume.to_vec()),
        };
        assert_eq!(
            (axes.as_str(), size.as_slice(), dataset.shape()),
            (expected_axes, &expected_size[..], shape)
        );
        assert!(dataset.is_chunked() && !dataset.filters().is_empty(), "{name}");
    }
}

#[test]
fn a_finished_volume_is_left_alone() {
    let (_folder, path) = volume(&TINY);
    let before = fs::metadata(&path).unwrap();
    ensure_sized(&path, &TINY).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.ino(), after.modified().unwrap()), (before.ino(), before.modified().unwrap()));
}

#[test]
fn folders_are_made_and_nothing_but_the_volume_is_left_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache/voltile/demo.h5");
    ensure_sized(&path, &TINY).unwrap();
    assert_eq!(names_in(path.parent().unwrap()), ["demo.h5"]);
}

#[test]
fn a_volume_of_another_version_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.h5");
    write::write(&path, &TINY, VERSION + 1).unwrap();
    assert_eq!(found_at(&path), Found::Outdated);
    ensure_sized(&path, &TINY).unwrap();
    assert_eq!(found_at(&path), Found::Finished);
}

#[test]
fn a_truncated_or_an_empty_file_is_made_anew() {
    for length in [0, 8, 2_000] {
        let (_folder, path) = volume(&TINY);
        fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        assert_eq!(found_at(&path), Found::Outdated, "{length} bytes");
        ensure_sized(&path, &TINY).unwrap();
        assert_eq!(found_at(&path), Found::Finished);
    }
}

#[test]
fn what_somebody_else_has_put_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (text, volume) = (folder.path().join("letter.txt"), folder.path().join("own.h5"));
    fs::write(&text, "Dear Ada").unwrap();
    hdf5::File::create(&volume).unwrap().new_dataset::<u8>().shape(3).create("own").unwrap();
    for path in [&text, &volume, &folder.path().to_owned()] {
        let before = fs::metadata(path).unwrap().modified().unwrap();
        let error = ensure_sized(path, &TINY).unwrap_err();
        assert!(matches!(error, DemoError::Foreign { .. }), "{error:?}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), before);
    }
}

#[test]
fn runs_at_the_same_time_do_not_harm_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.h5");
    thread::scope(|scope| {
        let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| ensure_sized(&path, &TINY))).collect();
        runs.into_iter().for_each(|run| run.join().unwrap().unwrap());
    });
    assert_eq!(found_at(&path), Found::Finished);
    assert_eq!(names_in(folder.path()), ["demo.h5"]);
}

#[test]
fn abandoned_drafts_are_swept_away_and_fresh_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (old, fresh) =
        (folder.path().join("demo.1-0.voltile-draft"), folder.path().join("demo.2-0.voltile-draft"));
    for path in [&old, &fresh] {
        fs::write(path, "half a volume").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    sweep(folder.path());
    assert_eq!(names_in(folder.path()), ["demo.2-0.voltile-draft"]);
}

#[test]
fn a_failure_leaves_no_draft() {
    let folder = tempfile::tempdir().unwrap();
    let draft = Draft::beside(&folder.path().join("demo.h5"));
    fs::write(&draft.path, "half a volume").unwrap();
    drop(draft);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = ensure_sized(&file.join("demo.h5"), &TINY).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot make the folder {}", file.display())), "{error}");
}

#[test]
fn the_cache_folder_is_found() {
    let find = |cache: Option<&str>, home: Option<&str>| {
        path_below(cache.map(OsString::from), home.map(OsString::from)).ok()
    };
    let demo = |folder: &str| Some(Path::new(folder).join(format!("voltile/demo-v{VERSION}.h5")));
    assert_eq!(find(Some("/cache"), Some("/home/ada")), demo("/cache"));
    assert_eq!(find(None, Some("/home/ada")), demo("/home/ada/.cache"));
    assert_eq!(find(Some(""), Some("/home/ada")), demo("/home/ada/.cache"));
    assert_eq!(find(Some("relative"), None), None);
    assert_eq!(find(None, None), None);
}
