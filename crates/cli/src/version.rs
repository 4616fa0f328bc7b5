//! The text of `--version`.

/// The version, the commit and its date if the build knows them, and the features.
pub(super) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    env!("BUILD_COMMIT"),
    "\nfeatures: ",
    env!("BUILD_FEATURES"),
);
