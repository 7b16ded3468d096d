//! Bundles the page (`src/page` and the packages that `scripts/page` installed) into the binary.
//!
//! This downloads nothing, and a missing tool never fails the build: without node or the packages,
//! voltile is built with the simple page only, and a warning says so. The output is `assets.rs`, a
//! list that `http::page` includes.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo looks at all files in the folder, including the installed packages.
    println!("cargo::rerun-if-changed=src/page");
    // The page has the colour maps of the server.
    println!("cargo::rerun-if-changed=crates/base/src/maps");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=VOLTILE_WITHOUT_PAGE");
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

/// Bundles the page into a folder; the error is the reason why the page cannot be bundled.
fn bundle(folder: &Path) -> Result<(), String> {
    if env::var_os("VOLTILE_WITHOUT_PAGE").is_some() {
        return Err("VOLTILE_WITHOUT_PAGE is set".to_owned());
    }
    if !Path::new("src/page/node_modules/complete").exists() {
        return Err("its packages are missing; run scripts/page, then build again".to_owned());
    }
    let run = Command::new("node")
        .arg("src/page/bundle.mjs")
        .arg(folder)
        .output();
    match run {
        Err(error) => Err(format!("node does not run: {error}")),
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).replace('\n', " | ")),
    }
}

/// The list of bundled files, as Rust source, from the lines `NAME DIGEST` of the file `etags`.
fn list(folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut assets = "static ASSETS: &[Asset] = &[\n".to_owned();
    for line in fs::read_to_string(folder.join("etags"))?.lines() {
        let (name, digest) = line
            .split_once(' ')
            .ok_or("etags: NAME DIGEST is expected")?;
        writeln!(
            assets,
            "    Asset {{ name: {name:?}, digest: {digest:?}, \
             plain: include_bytes!(\"page/{name}\"), gzip: include_bytes!(\"page/{name}.gz\") }},"
        )?;
    }
    Ok(assets + "];\n")
}
