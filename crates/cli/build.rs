//! Tells the command line which commit it is built from, when that was made, and which features it
//! has.
//!
//! Needs neither git nor the network: without a commit the version alone is shown. Only release
//! builds name the commit, so that a commit does not rebuild everything while the crate is worked
//! on.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    let commit = if is_release { commit() } else { None };
    // Not `RESTITCH_…`: cargo sets these variables for the programs that it runs, and restitch
    // reports unknown variables with that prefix.
    println!(
        "cargo::rustc-env=BUILD_COMMIT={}",
        commit.unwrap_or_default()
    );
    println!("cargo::rustc-env=BUILD_FEATURES={}", features());
}

/// ` (1234567890ab 2026-01-31)` of the repository that has this file.
fn commit() -> Option<String> {
    // An archive may be unpacked inside of another repository.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // It changes with every commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    let commit = git(&["log", "-1", "--format=%h %cs", "--abbrev=12"])?;
    Some(format!(" ({commit})"))
}

/// What git prints. It runs in the folder of this file, as build scripts do.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The features that are on, or `none`.
fn features() -> String {
    let names = env::vars_os().filter_map(|(name, _)| {
        let feature = name.to_str()?.strip_prefix("CARGO_FEATURE_")?;
        Some(feature.to_lowercase()).filter(|feature| feature != "default")
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    if names.is_empty() {
        names.push("none".to_owned());
    }
    names.join(", ")
}
