//! Tells the command line which commit it is built from, when that was made, and which features it
//! has.
//!
//! Needs neither git nor the network: without a commit the version alone is shown. Only release
//! builds name the commit, so that a commit does not rebuild everything while the crate is worked
//! on.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    let commit = if is_release {
        commit_of_git().or_else(commit_of_package)
    } else {
        None
    };
    // Not `RESTITCH_…`: cargo sets these variables for the programs that it runs, and restitch
    // reports unknown variables with that prefix.
    println!(
        "cargo::rustc-env=BUILD_COMMIT={}",
        commit.unwrap_or_default()
    );
    println!("cargo::rustc-env=BUILD_FEATURES={}", features());
}

/// ` (1234567890ab 2026-01-31)` of the repository that this is the root of.
fn commit_of_git() -> Option<String> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..");
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(args)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // An archive may be unpacked inside of another repository.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&root).canonicalize().ok()? {
        return None;
    }
    // It changes with every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!(
            "cargo::rerun-if-changed={}",
            Path::new(&root).join(log).display()
        );
    }
    Some(format!(
        " ({})",
        git(&["log", "-1", "--format=%h %cs", "--abbrev=12"])?
    ))
}

/// ` (1234567890ab)` of a package that `cargo package` has made.
fn commit_of_package() -> Option<String> {
    let root = env::var_os("CARGO_MANIFEST_DIR")?;
    let text = std::fs::read_to_string(Path::new(&root).join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\": \"")?;
    Some(format!(" ({})", rest.get(..12)?))
}

/// The features that are on, or `none`.
fn features() -> String {
    let name = |(variable, _): (OsString, _)| {
        Some(
            variable
                .to_str()?
                .strip_prefix("CARGO_FEATURE_")?
                .to_lowercase(),
        )
    };
    let mut names: Vec<String> = env::vars_os()
        .filter_map(name)
        .filter(|name| name != "default")
        .collect();
    names.sort();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
