//! Bundles the page (`src/page` and the packages that `scripts/page` installed) into the binary.
//!
//! Cargo never downloads anything for it, and a missing tool never fails the build: without node or the
//! packages, voltile is built with the simple page only, and a warning says so. The output is `assets.rs`, a
//! list that `http::page` includes.
//!
//! It also tells the tests whether the shared data lies next to the project.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The list of the shared files.
const SHARED_DATA: &str = "../shared/data/MANIFEST.md";

fn main() -> Result<(), Box<dyn Error>> {
    // Everything below it, including the installed packages.
    println!("cargo::rerun-if-changed=src/page");
    println!("cargo::rerun-if-changed=src/base/maps"); // the page's colour maps are the server's
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=VOLTILE_WITHOUT_PAGE");
    look_for_shared_data();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let assets = match bundle(&out.join("page")) {
        Ok(()) => list(&out.join("page"))?,
        Err(reason) => {
            println!("cargo::warning=the viewer is not built in: {reason}");
            "static ASSETS: &[Asset] = &[];\n".to_owned()
        }
    };
    fs::write(out.join("assets.rs"), assets)?;
    Ok(())
}

/// Sets `has_shared_data` if the files of other projects lie next to this one: without them, the tests that need them are
/// reported as ignored. Data that is added later is found when this script runs again (`touch build.rs`).
fn look_for_shared_data() {
    println!("cargo::rustc-check-cfg=cfg(has_shared_data)");
    // Cargo runs this script every time if a file that it names does not exist.
    if Path::new(SHARED_DATA).exists() {
        println!("cargo::rerun-if-changed={SHARED_DATA}");
        println!("cargo::rustc-cfg=has_shared_data");
    }
}

/// Bundles the page into a folder, or says why that is not possible.
fn bundle(folder: &Path) -> Result<(), String> {
    if env::var_os("VOLTILE_WITHOUT_PAGE").is_some() {
        return Err("VOLTILE_WITHOUT_PAGE is set".to_owned());
    }
    if !Path::new("src/page/node_modules/complete").exists() {
        return Err("its packages are missing; run scripts/page, then build again".to_owned());
    }
    let run = Command::new("node").arg("src/page/bundle.mjs").arg(folder).output();
    match run {
        Err(error) => Err(format!("node does not run: {error}")),
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).replace('\n', " | ")),
    }
}

/// The list of bundled files, as Rust source.
fn list(folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut assets = "static ASSETS: &[Asset] = &[\n".to_owned();
    for line in fs::read_to_string(folder.join("etags"))?.lines() {
        let (name, digest) = line.split_once(' ').ok_or("etags: NAME DIGEST is expected")?;
        let (plain, gzip) = (folder.join(name), folder.join(format!("{name}.gz")));
        writeln!(
            assets,
            "    Asset {{ name: {name:?}, digest: {digest:?}, plain: include_bytes!({plain:?}), gzip: include_bytes!({gzip:?}) }},"
        )?;
    }
    Ok(assets + "];\n")
}
