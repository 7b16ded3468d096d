//! The contents of the demo volume, and when it is written.

use std::os::unix::fs::MetadataExt;
use std::thread;

use hdf5::types::VarLenAscii;

use super::*;

/// Large enough for several chunks and a nucleus.
const SMALL: Shapes = ([18, 140, 150], [3, 8, 60, 70]);
const TINY: Shapes = ([2, 8, 9], [2, 1, 4, 5]);

fn volume(shapes: Shapes) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache/voltile/demo.h5");
    ensure_sized(&path, shapes).unwrap();
    (folder, path)
}

fn read(path: &Path, name: &str) -> Vec<u32> {
    hdf5::File::open(path)
        .unwrap()
        .dataset(name)
        .unwrap()
        .read_raw()
        .unwrap()
}

fn names_beside(path: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    names
}

#[test]
fn the_voxels_never_change() {
    let (_folder, path) = volume(SMALL);
    // FNV-1a.
    let mix =
        |digest: u64, number: &u32| (digest ^ u64::from(*number)).wrapping_mul(0x0100_0000_01B3);
    let digest = |name| read(&path, name).iter().fold(0xCBF2_9CE4_8422_2325, mix);
    let found = ["em", "nuclei", "actin", "segmentation", "time"]
        .map(|name| format!("{:016x}", digest(name)));
    assert_eq!(
        found,
        [
            "897dc9a9bdae4ed5",
            "364fee1d002915d5",
            "34d3249ba040e065",
            "5d8133e41e2ed9be",
            "56e7c093c0c29c05"
        ],
        "if this is intended, raise VERSION"
    );
}

#[test]
fn membranes_are_dark_in_the_micrograph_bright_in_actin_and_0_in_the_segmentation() {
    let (_folder, path) = volume(SMALL);
    let labels = read(&path, "segmentation");
    let mean = |name, inside| {
        let voxels = read(&path, name)
            .into_iter()
            .zip(&labels)
            .filter(|(_, label)| (**label != 0) == inside);
        let voxels: Vec<_> = voxels.map(|(voxel, _)| f64::from(voxel)).collect();
        voxels.iter().sum::<f64>() / voxels.len() as f64
    };
    assert!(mean("em", true) > mean("em", false) + 20.0);
    assert!(mean("actin", false) > mean("actin", true) + 20.0);
    for name in ["nuclei", "actin", "time"] {
        let (lowest, highest) = (
            read(&path, name).into_iter().min(),
            read(&path, name).into_iter().max(),
        );
        assert!(
            lowest == Some(100) && (200..=4095).contains(&highest.unwrap()),
            "{name}: {lowest:?} {highest:?}"
        );
    }
}

#[test]
fn every_voxel_lies_in_the_cell_that_a_search_among_all_cells_finds() {
    let scene = tissue::grow([2, 70, 90]);
    let places = scene.slice(1, 0..70, 90, |place| (place.point, place.cell.rod.id));
    for (point, id) in places {
        let nearest = scene
            .rods
            .iter()
            .min_by(|a, b| a.away(point).1.total_cmp(&b.away(point).1));
        assert_eq!(nearest.unwrap().id, id, "at {point:?}");
    }
}

#[test]
fn neighbouring_frames_are_alike() {
    let (_folder, path) = volume((TINY.0, SMALL.1));
    let voxels = read(&path, "time");
    let frames: Vec<_> = voxels.chunks(voxels.len() / 3).collect();
    let distance = |a: &[u32], b: &[u32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| u64::from(a.abs_diff(*b)))
            .sum::<u64>()
    };
    assert!(distance(frames[0], frames[1]) < distance(frames[0], frames[2]));
    assert!(distance(frames[1], frames[2]) < distance(frames[0], frames[2]));
}

#[test]
fn the_file_names_its_axes_and_the_size_of_its_voxels() {
    let (_folder, path) = volume(TINY);
    let file = hdf5::File::open(&path).unwrap();
    let mut names = file.member_names().unwrap();
    names.sort();
    assert_eq!(names, ["actin", "em", "nuclei", "segmentation", "time"]);
    for dataset in file.datasets().unwrap() {
        let axes: Vec<VarLenAscii> = dataset
            .attr("DIMENSION_LABELS")
            .unwrap()
            .read_raw()
            .unwrap();
        let axes: String = axes.iter().map(VarLenAscii::as_str).collect();
        let size = dataset
            .attr("element_size_um")
            .unwrap()
            .read_raw::<f64>()
            .unwrap();
        let (expected_axes, expected_size, shape) = match dataset.name().as_str() {
            "/time" => ("tzyx", [1.0, 0.2, 0.2], TINY.1.to_vec()),
            _ => ("zyx", [0.030, 0.004, 0.004], TINY.0.to_vec()),
        };
        assert_eq!(
            (axes.as_str(), size, dataset.shape()),
            (expected_axes, expected_size.to_vec(), shape)
        );
        assert!(
            dataset.is_chunked() && !dataset.filters().is_empty(),
            "{}",
            dataset.name()
        );
    }
}

#[test]
fn a_finished_volume_is_left_alone_and_one_of_another_version_is_replaced() {
    let (_folder, path) = volume(TINY);
    let identity = || {
        fs::metadata(&path)
            .map(|it| (it.ino(), it.modified().unwrap()))
            .unwrap()
    };
    let before = identity();
    ensure_sized(&path, TINY).unwrap();
    assert_eq!(identity(), before);
    write::write(&path, TINY, VERSION + 1).unwrap();
    ensure_sized(&path, TINY).unwrap();
    assert_eq!(version_at(&path).unwrap(), Some(VERSION));
}

#[test]
fn a_lock_on_the_volume_that_somebody_holds_prevents_nothing() {
    let (_folder, path) = volume(TINY);
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    assert_eq!(version_at(&path).unwrap(), Some(VERSION));
    write::write(&path, TINY, VERSION + 1).unwrap();
    ensure_sized(&path, TINY).unwrap();
}

#[test]
fn a_damaged_volume_is_replaced_where_it_is() {
    let (folder, path) = volume(TINY);
    let link = folder.path().join("link.h5");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for length in [4096, 2000] {
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length)
            .unwrap();
        assert_eq!(version_at(&path).unwrap(), Some(0), "{length} bytes");
        ensure_sized(&link, TINY).unwrap();
        assert_eq!(version_at(&path).unwrap(), Some(VERSION));
    }
    assert!(link.is_symlink());
}

#[test]
fn the_draft_of_a_killed_run_is_replaced_and_the_lock_keeps_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.h5");
    fs::write(folder.path().join("demo.voltile-draft"), "half a volume").unwrap();
    fs::write(folder.path().join("demo.lock"), "somebody's").unwrap();
    ensure_sized(&path, TINY).unwrap();
    assert_eq!(version_at(&path).unwrap(), Some(VERSION));
    assert_eq!(names_beside(&path), ["demo.h5", "demo.lock"]);
    assert_eq!(
        fs::read(folder.path().join("demo.lock")).unwrap(),
        b"somebody's"
    );
}

#[test]
fn what_somebody_else_has_put_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [text, empty, volume, damaged] =
        ["letter.txt", "empty.h5", "own.h5", "damaged.h5"].map(|name| folder.path().join(name));
    fs::write(&text, "Dear Ada").unwrap();
    fs::write(&empty, "").unwrap();
    hdf5::File::create(&volume)
        .unwrap()
        .new_dataset::<u8>()
        .shape(3)
        .create("own")
        .unwrap();
    fs::write(&damaged, &fs::read(&volume).unwrap()[..100]).unwrap();
    for path in [&text, &empty, &volume, &damaged, &folder.path().to_owned()] {
        let before = fs::metadata(path).unwrap().modified().unwrap();
        let error = ensure_sized(path, TINY).unwrap_err();
        assert!(matches!(error, DemoError::Foreign(_)), "{error:?}");
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
        assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), before);
    }
    let nowhere = folder.path().join("nowhere.h5");
    std::os::unix::fs::symlink("missing/volume.h5", &nowhere).unwrap();
    assert!(matches!(
        ensure_sized(&nowhere, TINY),
        Err(DemoError::Foreign(_))
    ));
    assert!(nowhere.is_symlink());
    assert!(
        names_beside(&text)
            .iter()
            .all(|name| !name.to_string_lossy().ends_with("lock"))
    );
}

#[test]
fn runs_at_the_same_time_do_not_harm_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.h5");
    thread::scope(|scope| {
        let runs: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| ensure_sized(&path, TINY)))
            .collect();
        runs.into_iter()
            .for_each(|run| run.join().unwrap().unwrap());
    });
    assert_eq!(version_at(&path).unwrap(), Some(VERSION));
    assert_eq!(names_beside(&path), ["demo.h5", "demo.lock"]);
}

#[test]
fn a_failure_names_the_path_and_leaves_no_draft() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.h5");
    let below_a_file = folder.path().join("demo.lock/demo.h5");
    for (path, shapes) in [(&path, ([0; 3], [0; 4])), (&below_a_file, TINY)] {
        let error = ensure_sized(path, shapes).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "cannot write the demo volume to {}",
                path.display()
            )),
            "{error}"
        );
    }
    assert_eq!(names_beside(&path), ["demo.lock"]);
}

#[test]
fn the_cache_folder_is_found() {
    let find = |cache: Option<&str>, home: Option<&str>| {
        let variable = |name| if name == "HOME" { home } else { cache };
        default_path(|name| variable(name).map(OsString::from)).ok()
    };
    let demo = |folder: &str| Some(Path::new(folder).join("voltile/demo-v1.h5"));
    assert_eq!(find(Some("/cache"), Some("/home/ada")), demo("/cache"));
    assert_eq!(find(None, Some("/home/ada")), demo("/home/ada/.cache"));
    assert_eq!(find(Some(""), Some("/home/ada")), demo("/home/ada/.cache"));
    assert_eq!(find(Some("relative"), None), None);
    assert_eq!(find(None, None), None);
}
