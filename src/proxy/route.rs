//! How the requests of a route are answered.

use crate::Limits;
use crate::client::Client;
use crate::repair::RepairLevel;
use crate::session::GiveUp;

/// How requests are answered: by which upstream, within which limits, and what may become of an answer.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) client: Client,
    /// The most that a request may ask for.
    pub(super) limits: Limits,
    /// What becomes of an answer if its rest can't be had, where the request does not say.
    pub(super) give_up: GiveUp,
    /// How much of the JSON in an answer may be changed, where the request does not say.
    pub(super) repair: RepairLevel,
}

impl Route {
    pub(super) fn new(client: Client, limits: Limits) -> Self {
        Self { client, limits, give_up: GiveUp::Leave, repair: RepairLevel::Strict }
    }
}
