//! The labels of the metrics, with the names that they have in the conventions of OpenTelemetry.
//!
//! A label of all metrics about answers is a field of [`OfAnswer`].

use std::borrow::Cow;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;

use crate::recorded::Labels;

/// The labels of each metric about answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct OfAnswer {
    pub(in super::super) route: Arc<str>,
}

impl Labels for OfAnswer {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("route", &self.route);
    }
}

/// A call to a fallback, for the `whole` answer or its `rest`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct FallbackCall {
    pub(super) route: String,
    pub(super) upstream: String,
    pub(super) part: &'static str,
}

impl Labels for FallbackCall {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("route", &self.route);
        on("upstream", &self.upstream);
        on("part", self.part);
    }
}

/// An upstream by its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct OfUpstream {
    pub(super) upstream: String,
}

impl Labels for OfUpstream {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("upstream", &self.upstream);
    }
}

/// The route and the upstream of a request, and the status for its client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Routed {
    pub(super) route: String,
    pub(super) upstream: String,
    pub(super) status: String,
}

impl Labels for Routed {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("route", &self.route);
        on("upstream", &self.upstream);
        on("status", &self.status);
    }
}

/// The version of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct OfBuild {
    pub(super) version: &'static str,
}

impl Labels for OfBuild {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("version", self.version);
    }
}

/// The type of the store of kept answers: `memory`, `file` or `redis`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct OfStore {
    pub(super) store: &'static str,
}

impl Labels for OfStore {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("store", self.store);
    }
}

/// Why an answer is not kept: the reason in `x-restitch-keep`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct NotKept {
    pub(super) reason: &'static str,
}

impl Labels for NotKept {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("reason", self.reason);
    }
}

/// The role of a certificate: `server`, `client` or `ca`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct OfCertificate {
    pub(super) certificate: &'static str,
}

impl Labels for OfCertificate {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("certificate", self.certificate);
    }
}

/// The limit over which a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct RefusedConnection {
    pub(super) reason: &'static str,
}

impl Labels for RefusedConnection {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("reason", self.reason);
    }
}

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct FailedHandshake {
    pub(super) reason: &'static str,
}

impl Labels for FailedHandshake {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("reason", self.reason);
    }
}

/// The operation that a request asks of a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Operation {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) gen_ai_provider_name: Arc<str>,
    pub(in super::super) gen_ai_operation_name: &'static str,
    pub(in super::super) gen_ai_request_model: Arc<str>,
}

impl Labels for Operation {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("gen_ai.provider.name", &self.gen_ai_provider_name);
        on("gen_ai.operation.name", self.gen_ai_operation_name);
        on("gen_ai.request.model", &self.gen_ai_request_model);
    }
}

/// Whether a call or an answer ended with an error: empty, or [`ERROR`]. Each error of each model
/// would need a histogram of its own; [`CallError`] and [`AnswerError`] name the errors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Ended {
    #[prometheus(flatten)]
    pub(in super::super) operation: Operation,
    pub(in super::super) error_type: &'static str,
}

/// The value that the conventions have for errors without a name.
pub(in super::super) const ERROR: &str = "_OTHER";

impl Labels for Ended {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.operation.each(on);
        // The conventions omit this attribute if there is no error.
        if !self.error_type.is_empty() {
            on("error.type", self.error_type);
        }
    }
}

/// A call that ended with an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct CallError {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) upstream: Arc<str>,
    pub(in super::super) model: Arc<str>,
    pub(in super::super) error_type: Cow<'static, str>,
}

impl Labels for CallError {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("upstream", &self.upstream);
        on("model", &self.model);
        on("error.type", &self.error_type);
    }
}

/// An answer that ended with an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct AnswerError {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) model: Arc<str>,
    pub(in super::super) error_type: Cow<'static, str>,
}

impl Labels for AnswerError {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("model", &self.model);
        on("error.type", &self.error_type);
    }
}

/// The type of the counted tokens of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Usage {
    #[prometheus(flatten)]
    pub(in super::super) operation: Operation,
    pub(in super::super) gen_ai_token_type: &'static str,
}

impl Labels for Usage {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.operation.each(on);
        on("gen_ai.token.type", self.gen_ai_token_type);
    }
}

/// The strategy and the outcome of a further call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct FurtherCall {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) upstream: Arc<str>,
    pub(in super::super) rung: &'static str,
    pub(in super::super) outcome: &'static str,
}

impl Labels for FurtherCall {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("upstream", &self.upstream);
        on("rung", self.rung);
        on("outcome", self.outcome);
    }
}

/// The purpose that tokens were used for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct TokenUse {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) r#use: &'static str,
}

impl Labels for TokenUse {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("use", self.r#use);
    }
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct EndedAnswer {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) wire: &'static str,
    pub(in super::super) slot: &'static str,
    pub(in super::super) status: &'static str,
    /// The name of the client's token. Empty: the proxy needs none.
    pub(in super::super) token: Arc<str>,
}

impl Labels for EndedAnswer {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("wire", self.wire);
        on("slot", self.slot);
        on("status", self.status);
        if !self.token.is_empty() {
            on("token", &self.token);
        }
    }
}

/// The model whose answer was cut, and the cause.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Cut {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) upstream: Arc<str>,
    pub(in super::super) model: Arc<str>,
    pub(in super::super) cause: &'static str,
}

impl Labels for Cut {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("upstream", &self.upstream);
        on("model", &self.model);
        on("cause", self.cause);
    }
}

/// The model whose answer has doubtful seams: `ambiguous` or `early_end`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Flagged {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) model: Arc<str>,
    pub(in super::super) flag: &'static str,
}

impl Labels for Flagged {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("model", &self.model);
        on("flag", self.flag);
    }
}

/// The model whose answer was given up, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct GivenUp {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) model: Arc<str>,
    pub(in super::super) stop: &'static str,
}

impl Labels for GivenUp {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("model", &self.model);
        on("stop", self.stop);
    }
}

/// The outcome of a request for the rest of a kept answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Resume {
    pub(in super::super) outcome: &'static str,
}

impl Labels for Resume {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        on("outcome", self.outcome);
    }
}

/// How a continuation was joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in super::super) struct Joined {
    #[prometheus(flatten)]
    pub(in super::super) answer: OfAnswer,
    pub(in super::super) kind: &'static str,
}

impl Labels for Joined {
    fn each(&self, on: &mut dyn FnMut(&'static str, &str)) {
        self.answer.each(on);
        on("kind", self.kind);
    }
}
