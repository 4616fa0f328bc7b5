//! The admin listener: the metrics after an answer, and the proxy's readiness.

pub(super) mod exposition;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use exposition::Exposition;
use restitch::Limits;
use restitch::provider::capability::{PrefillForm, Row};
use restitch_proxy::config::Config;
use restitch_proxy::{Listen, MetricRow, Server, metric_rows};
use restitch_sim::Sim;
use tokio::io::AsyncWriteExt;

use super::listeners::{at, certificate, tcp};
use super::raw::*;
use super::{DOCUMENT, Setup, ask, request};
use crate::proxy::made::TestProxy;

/// Returns a proxy with an admin listener in front of the model server.
async fn measured(script: &str, max_models: usize) -> Setup {
    let mut limits = Limits::default();
    limits.server.max_metric_models = max_models;
    limits.keep.max_keep_time = Duration::from_secs(1);
    Setup::of(script, |proxy| {
        proxy.limits(limits).threads(2).admin(Some(LOOPBACK))
    })
    .await
}

/// Returns the answer of the admin listener to a request.
async fn get(proxy: &Server, method: &str, path: &str) -> String {
    exchange(
        proxy.admin_addr().unwrap(),
        &format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
    )
    .await
}

/// The newest client still gets its answer afterwards, so the probe has waited for no timeout.
#[tokio::test]
async fn a_probe_is_answered_while_others_send_no_head() {
    let setup = measured("answer", 100).await;
    let admin = setup.proxy.admin_addr().unwrap();
    for method in ["GET", "HEAD"] {
        let mut unfinished = Vec::new();
        for _ in 0..256 {
            let mut stream = connect(admin).await;
            stream
                .write_all(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-")
                .await
                .unwrap();
            unfinished.push(stream);
        }
        for path in ["/healthz", "/readyz", "/metrics"] {
            let answer = get(&setup.proxy, method, path).await;
            answer
                .of(format!("{method} {path}"))
                .begins("HTTP/1.1 200 OK\r\n");
        }
        let mut last = unfinished.pop().unwrap();
        last.write_all(b"probe: 1\r\n\r\n").await.unwrap();
        read_to_end(&mut last).await.ends("ready\n");
        assert_eq!(
            read_to_end(&mut unfinished[0]).await,
            "",
            "the oldest has left its place"
        );
    }
}

#[tokio::test]
async fn readers_of_the_older_text_format_get_it() {
    let raw = Raw::new(vec![full("[1]")]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    exchange(proxy.addr(), &post(ASK)).await;
    metrics(&proxy, 1).await;
    let old = |accept: &'static str| {
        let request =
            format!("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: {accept}\r\n\r\n");
        let admin = proxy.admin_addr().unwrap();
        async move { exchange(admin, &request).await }
    };
    let both =
        old("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5").await;
    let (open, _) = body_of(&both);
    open.of(both).ends("# EOF\n");
    let answer = old("text/plain;version=0.0.4;q=1,*/*;q=0.1").await;
    answer.has("content-type: text/plain; version=0.0.4; charset=utf-8\r\n");
    let (text, is_whole) = body_of(&answer);
    assert!(is_whole, "{text}");
    text.lacks("# EOF").lacks("# UNIT");
    // The memory differs from scrape to scrape.
    let is_sample = |line: &&str| !line.starts_with('#') && !line.starts_with("process_");
    let samples = |text: &str| {
        text.lines()
            .filter(is_sample)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(samples(&text), samples(&open));
    // Each comment names its samples as they are.
    text.has("# TYPE restitch_answers_total counter\nrestitch_answers_total{");
    text.has("# HELP restitch_answers_total ");
    text.has("# TYPE restitch_running gauge\n");
    for family in text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
    {
        family.ends("_total");
    }
}

/// Reads the metrics until no answer runs and `answers` have ended. The proxy records an answer's
/// measurements after its client has it.
async fn metrics(proxy: &Server, answers: u32) -> Exposition {
    for _ in 0..1000 {
        let answer = get(proxy, "GET", "/metrics").await;
        answer.begins("HTTP/1.1 200 OK");
        answer.has("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8");
        let (body, is_whole) = body_of(&answer);
        assert!(is_whole, "{answer}");
        let read = Exposition::read(&body);
        if read.sum("restitch_running", &[]) == 0.0
            && read.sum("restitch_answers_total", &[]) == f64::from(answers)
        {
            return read;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!(
        "{answers} answers are not counted: {}",
        get(proxy, "GET", "/metrics").await
    );
}

const CHAT: (&str, &str) = ("gen_ai_operation_name", "chat");
const MODEL: (&str, &str) = ("gen_ai_request_model", "sim");
const HOST: (&str, &str) = ("gen_ai_provider_name", "127.0.0.1");

#[tokio::test]
async fn a_healthy_answer_is_measured() {
    let setup = measured("answer", 100).await;
    setup.stream().await.assert_seamless(DOCUMENT, "answer");
    let seen = metrics(&setup.proxy, 1).await;
    let passed = [
        ("wire", "openai-chat"),
        ("slot", "text"),
        ("status", "passed"),
    ];
    assert_eq!(seen.sum("restitch_answers_total", &passed), 1.0);
    for metric in [
        "gen_ai_client_operation_duration_seconds",
        "gen_ai_server_request_duration_seconds",
    ] {
        let labels = [CHAT, MODEL, HOST, ("error_type", "")];
        assert_eq!(
            seen.sum(&format!("{metric}_count"), &labels),
            1.0,
            "{metric}"
        );
        assert!(
            seen.sum(&format!("{metric}_sum"), &labels) > 0.0,
            "{metric}"
        );
    }
    for metric in [
        "gen_ai_client_operation_time_to_first_chunk_seconds",
        "gen_ai_server_time_to_first_token_seconds",
        "gen_ai_server_time_per_output_token_seconds",
    ] {
        assert_eq!(
            seen.sum(&format!("{metric}_count"), &[CHAT, MODEL, HOST]),
            1.0,
            "{metric}"
        );
    }
    let usage = |kind: &str| {
        seen.sum(
            "gen_ai_client_token_usage_sum",
            &[MODEL, ("gen_ai_token_type", kind)],
        )
    };
    assert!(usage("input") > 0.0);
    assert_eq!(
        seen.sum("restitch_tokens_total", &[("use", "kept")]),
        usage("output")
    );
    for none in [
        "restitch_cuts_total",
        "restitch_calls_total",
        "restitch_gap_seconds_count",
    ] {
        assert_eq!(seen.sum(none, &[]), 0.0, "{none}");
    }
    // A body that is not streamed has no first bytes of its own.
    ask(&setup.proxy.url(), &request(false, "x")).await;
    let seen = metrics(&setup.proxy, 2).await;
    assert_eq!(seen.sum("restitch_answers_total", &passed), 2.0);
    seen.check("gen_ai_client_operation_duration_seconds_count 2");
    seen.check("gen_ai_client_operation_time_to_first_chunk_seconds_count 1");
    seen.check("gen_ai_server_time_to_first_token_seconds_count 1");
    seen.check("gen_ai_client_token_usage_count 4");
}

/// The figures about the process are those of the moment.
#[tokio::test]
async fn the_process_is_measured() {
    let raw = Raw::new(vec![]).await;
    let proxy = in_front_of(&raw, |proxy| proxy.limits(Limits::default())).await;
    let _open = connect(proxy.addr()).await;
    for _ in 0..1000 {
        let seen = metrics(&proxy, 0).await;
        if seen.sum("restitch_connections", &[]) == 1.0 {
            let limit = Limits::default().server.max_connections as f64;
            assert_eq!(seen.sum("restitch_connections_limit", &[]), limit);
            seen.check("restitch_draining 0");
            let upstream = raw.addr.to_string();
            assert_eq!(seen.values("restitch_breaker_open", "upstream"), [upstream]);
            let version = [("version", env!("CARGO_PKG_VERSION"))];
            assert_eq!(seen.sum("restitch_build_info", &version), 1.0);
            assert!(seen.sum("process_start_time_seconds", &[]) > 1e9);
            if cfg!(target_os = "linux") {
                assert!(seen.sum("process_resident_memory_bytes", &[]) > 1e6);
                assert!(seen.sum("process_open_fds", &[]) > 3.0);
            }
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the connection is not counted");
}

/// Many clients may come over the limit at once. The log has their number, not a line for each.
#[tokio::test]
async fn refused_connections_share_lines() {
    let (log, _guard) = listening();
    let raw = Raw::new(vec![]).await;
    let mut limits = Limits::default();
    limits.server.max_connections = 1;
    let proxy = in_front_of(&raw, |proxy| proxy.limits(limits)).await;
    let _open = connect(proxy.addr()).await;
    for _ in 0..MANY {
        let answer = exchange(proxy.addr(), "").await;
        answer.begins("HTTP/1.1 503 ");
    }
    let seen = metrics(&proxy, 0).await;
    let of_status = [("route", ""), ("status", "503")];
    let many = f64::from(MANY);
    assert_eq!(seen.sum("restitch_requests_total", &of_status), many);
    assert_eq!(seen.sum("restitch_connections_refused_total", &[]), many);
    drop(_open);
    proxy.shutdown().await;
    let log = log.text();
    let counts: Vec<u32> = log
        .split("message=refused connections reason=\"max_connections\" count=")
        .skip(1)
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<u32>(), MANY, "{counts:?}");
    // Two lines, unless the machine is so slow that the period ends before the last connection.
    assert!(counts.len() < counts.iter().sum::<u32>() as usize / 2);
    log.lacks("message=answered");
}

/// More connections than the lines of any period.
const MANY: u32 = 100;

/// A client without access, a large request and a full proxy are seen from their first one on.
#[tokio::test]
async fn refusals_without_a_route_begin_at_0() {
    let raw = Raw::new(vec![]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    let text = get(&proxy, "GET", "/metrics").await;
    for status in ["401", "403", "413", "431", "503"] {
        let series =
            format!("restitch_requests_total{{route=\"\",upstream=\"\",status=\"{status}\"}} 0\n");
        text.has(&series);
    }
}

/// The store is looked at also while no answer is kept.
#[tokio::test]
async fn a_store_is_measured() {
    let raw = Raw::new(vec![]).await;
    let folder = crate::cli::folder("measured-store", &[]);
    let file = format!("file:{}", folder.to_str().unwrap());
    #[cfg(feature = "redis")]
    let gone = format!("redis://{}", nobody().await);
    for (kind, address, is_up) in [
        ("memory", "memory".to_owned(), 1.0),
        ("file", file, 1.0),
        #[cfg(feature = "redis")]
        ("redis", gone, 0.0),
    ] {
        let mut limits = Limits::default();
        limits.keep.max_keep_time = Duration::from_secs(1);
        let proxy = in_front_of(&raw, |proxy| proxy.limits(limits).store(address)).await;
        let mut seen = metrics(&proxy, 0).await;
        for _ in 0..1000 {
            let errors = seen.sum("restitch_store_errors_total", &[]);
            let operations = seen.sum("restitch_store_duration_seconds_count", &[]);
            let is_due = kind == "memory" || operations > 0.0;
            if is_due && seen.sum("restitch_store_up", &[("store", kind)]) == is_up {
                assert_eq!(errors > 0.0, is_up == 0.0, "{kind}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            seen = metrics(&proxy, 0).await;
        }
        assert_eq!(
            seen.sum("restitch_store_up", &[("store", kind)]),
            is_up,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_continued_answer_is_measured() {
    for is_stream in [true, false] {
        let setup = measured("answer@100!length | refusal anchor@60!drop anchor", 100).await;
        ask(&setup.proxy.url(), &request(is_stream, "x")).await;
        let seen = metrics(&setup.proxy, 1).await;
        seen.check(r#"restitch_answers_total{status="complete"} 1"#);
        seen.check(r#"restitch_cuts_total{model="sim",cause="length"} 1"#);
        // A body whose end is lost brings nothing. What brings nothing cuts nothing.
        let (ok, failed) = if is_stream { (2.0, 1.0) } else { (1.0, 2.0) };
        let causes = seen.counted("restitch_cuts_total", "cause");
        assert_eq!(
            causes,
            if is_stream {
                &["drop", "length"][..]
            } else {
                &["length"]
            }
        );
        let calls = |outcome: &str| {
            seen.sum(
                "restitch_calls_total",
                &[("rung", "words"), ("outcome", outcome)],
            )
        };
        assert_eq!((calls("ok"), calls("failed")), (ok, failed));
        assert_eq!(seen.sum("restitch_seams_total", &[]), ok);
        let errors = seen.counted("restitch_call_errors_total", "error_type");
        assert_eq!(errors, ["drop"]);
        assert_eq!(
            seen.sum("restitch_seams_total", &[]),
            seen.sum("restitch_gap_seconds_count", &[])
        );
        assert_eq!(
            seen.sum("restitch_seams_total", &[]),
            seen.sum("restitch_pending_bytes_count", &[])
        );
        assert!(seen.sum("restitch_tokens_total", &[("use", "kept")]) > 0.0);
        assert!(seen.sum("restitch_tokens_total", &[("use", "regenerated")]) > 0.0);
        assert_eq!(
            seen.sum("gen_ai_client_operation_duration_seconds_count", &[MODEL]),
            setup.sim.calls().len() as f64
        );
    }
}

/// Returns a proxy with an admin listener in front of a scripted upstream.
async fn in_front_of(raw: &Raw, with: impl FnOnce(TestProxy) -> TestProxy) -> Server {
    let upstream = format!("http://{}", raw.addr);
    with(TestProxy::new(upstream).admin(Some(LOOPBACK)))
        .start()
        .await
}

#[tokio::test]
async fn each_way_of_a_further_call_is_measured() {
    let mut kept = Row::of("*");
    kept.keeps_streams = Some(true);
    let prefill = Row::of("*").prefill(PrefillForm::Turn);
    let lost = |text: &str| vec![send(format!("{STREAM}{text}")), Piece::Reset];
    let rest = |text: &str| full(text);
    for (row, first, further, way, error) in [
        (Row::of("*"), lost(""), rest("[1, 2]"), "original", "drop"),
        (prefill, lost(&chunk("[1, 2")), rest("]"), "prefill", "drop"),
        (kept, lost(&chunk("[1, 2")), rest("]"), "reattach", "lost"),
    ] {
        // The proxy asks first whether the server stops streams.
        let stopped = vec![send("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")];
        let asked = (row.keeps_streams == Some(true)).then_some(stopped);
        let raw = Raw::new(asked.into_iter().chain([first, further]).collect()).await;
        let proxy = in_front_of(&raw, |proxy| proxy.adapt(true).row(row)).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        assert!(body_of(&answer).1, "{way}: {answer}");
        let seen = metrics(&proxy, 1).await;
        assert_eq!(
            seen.sum("restitch_calls_total", &[("rung", way), ("outcome", "ok")]),
            1.0,
            "{way}: {seen:?}"
        );
        seen.check("restitch_calls_total 1");
        let calls = |error: &str| seen.calls(error);
        assert_eq!((calls(error), calls("")), (1.0, 1.0), "{way}: {seen:?}");
    }
}

/// Returns the metrics of two answers: equal elements precede the first one's seam, which may be
/// wrong, and the proxy refuses the second one's rest.
async fn doubtful() -> Exposition {
    let begun =
        r#"[{"id": 1, "n": "Ada Lovelace"}, {"id": 2, "n": "Bob"}, {"id": 2, "n": "Bob"}, {"id""#;
    let again = r#"[{"id": 1, "n": "Ada Lovelace"}, {"id": 2, "n": "Bob"}, {"id": 2, "n": "Bob"}, {"id": 3, "n": "Eve"}]"#;
    let ended = |text: &str, reason: &str| stream(&(chunk(text) + &finish(reason)));
    let refused = vec![send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")];
    let answers = vec![
        ended(begun, "length"),
        ended(again, "stop"),
        ended(begun, "length"),
        refused,
    ];
    let raw = Raw::new(answers).await;
    let limits = Limits::default().with_max_consecutive_failures(1);
    let proxy = in_front_of(&raw, |proxy| proxy.limits(limits)).await;
    for told in ["\"ambiguous\":1", "\"stop\":\"failures\""] {
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        answer.has(told);
    }
    metrics(&proxy, 2).await
}

/// Returns the metrics of a proxy with a certificate, after a handshake has failed.
async fn with_certificate() -> Exposition {
    let proxy = Raw::new(Vec::new())
        .await
        .unbound(Limits::default())
        .admin(Some(LOOPBACK));
    let proxy = proxy
        .listen(&Listen {
            tls: Some(certificate()),
            ..at("127.0.0.1:0")
        })
        .await
        .unwrap();
    exchange(tcp(&proxy), "no TLS\r\n\r\n").await;
    for _ in 0..1000 {
        let request = "GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        let read =
            Exposition::read(&body_of(&exchange(proxy.admin_addr().unwrap(), request).await).0);
        if read.sum("restitch_tls_handshake_failures_total", &[]) == 1.0 {
            return read;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the handshake is not counted");
}

#[tokio::test]
async fn seams_that_may_be_wrong_are_counted() {
    let seen = doubtful().await;
    seen.check(r#"restitch_flagged_seams_total{model="m",flag="ambiguous"} 1"#);
    seen.check("restitch_flagged_seams_total 1");
    seen.check(r#"restitch_given_up_total{model="m",stop="failures"} 1"#);
}

#[tokio::test]
async fn an_answer_that_is_given_up_is_measured() {
    let setup = measured("answer@100!drop | 404", 100).await;
    setup.stream().await;
    let seen = metrics(&setup.proxy, 1).await;
    seen.check(r#"restitch_answers_total{slot="text",status="incomplete"} 1"#);
    seen.check(r#"restitch_cuts_total{model="sim",cause="drop"} 1"#);
    seen.check(r#"restitch_given_up_total{model="sim",stop="failures"} 1"#);
    seen.check(r#"restitch_calls_total{rung="words",outcome="refused"} 3"#);
    let calls = |error: &str| seen.calls(error);
    assert_eq!((calls("drop"), calls("404"), calls("")), (1.0, 3.0, 0.0));
    let answers = |error: &str| seen.answers(error);
    assert_eq!(answers("incomplete"), 0.0);
    assert_eq!(answers("broken"), 1.0);
    assert_eq!(answers(""), 0.0);
}

/// An answer that passes unread ends with its call.
#[tokio::test]
async fn an_answer_that_passes_unread_is_measured() {
    let setup = measured("404", 100).await;
    setup.stream().await;
    let seen = metrics(&setup.proxy, 1).await;
    seen.check(r#"restitch_answers_total{slot="unread",status="refused"} 1"#);
    // The upstream has not answered for the model: any name could be here.
    for metric in ["restitch_call_errors_total", "restitch_answer_errors_total"] {
        let labels = [("model", "other"), ("error_type", "404")];
        assert_eq!(seen.sum(metric, &labels), 1.0, "{metric}");
    }
    seen.check("gen_ai_server_time_to_first_token_seconds_count 0");
    // The proxy does not measure requests outside the APIs.
    get_at(setup.proxy.addr(), "/v1/models").await;
    metrics(&setup.proxy, 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_measured() {
    let raw = Raw::new(vec![held("[1, 2")]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    let mut client = begin(proxy.addr(), &post(ASK)).await;
    read_until(&mut client, "[1, 2").await;
    let (running, _) = body_of(&get(&proxy, "GET", "/metrics").await);
    assert_eq!(Exposition::read(&running).sum("restitch_running", &[]), 1.0);
    drop(client);
    let seen = metrics(&proxy, 1).await;
    seen.check(r#"restitch_answers_total{status="left"} 1"#);
    for metric in ["restitch_call_errors_total", "restitch_answer_errors_total"] {
        assert_eq!(seen.sum(metric, &[("error_type", "left")]), 1.0, "{metric}");
    }
}

#[tokio::test]
async fn models_have_labels_up_to_a_limit() {
    let setup = measured("answer@100 | anchor", 2).await;
    let hostile = "a\"b\\c} 1 é{";
    for model in [
        hostile,
        "two\nlines",
        "b",
        "c",
        &"x".repeat(100_000),
        hostile,
        "",
    ] {
        let mut request = request(true, "x");
        request["model"] = model.into();
        let answer = ask(&setup.proxy.url(), &request).await;
        answer.assert_seamless(DOCUMENT, model);
    }
    let seen = metrics(&setup.proxy, 7).await;
    for (metric, label) in [
        ("restitch_cuts_total", "model"),
        (
            "gen_ai_server_request_duration_seconds_count",
            "gen_ai_request_model",
        ),
    ] {
        assert_eq!(seen.counted(metric, label), [hostile, "b", "other"]);
        let count = |model: &str| seen.sum(metric, &[(label, model)]);
        assert_eq!(
            [hostile, "b", "other"].map(count),
            [2.0, 1.0, 4.0],
            "{metric}"
        );
    }
}

/// An answer is measured as that of the upstream that the client has it from.
#[tokio::test]
async fn an_answer_has_the_provider_that_answers() {
    let error = |status: &str| respond(status, "{}");
    let cut = || limited("[1, 2");
    let rest = || full("[1, 2, 3]");
    for (first, other, provider) in [
        // Neither answers: the client gets the first one's error.
        (
            vec![error("503 Unavailable")],
            vec![error("429 Too Many")],
            "127.0.0.1",
        ),
        (vec![error("503 Unavailable")], vec![rest()], "localhost"),
        // The rest alone is of the other one.
        (
            vec![cut(), error("503 Unavailable")],
            vec![rest()],
            "127.0.0.1",
        ),
    ] {
        let (main, fallback) = (Raw::new(first).await, Raw::new(other).await);
        let routes = format!(
            "[[route]]\nfallback = [{{ upstream = \"http://localhost:{}\" }}]\n",
            fallback.addr.port()
        );
        // Without patience a failed call is not repeated.
        let limits = restitch::Limits::default().with_patience(std::time::Duration::ZERO);
        let with =
            |proxy: TestProxy| super::routes::with_routes(proxy.limits(limits), &[], &routes);
        let proxy = in_front_of(&main, with).await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        let seen = metrics(&proxy, 1).await;
        let providers = seen.counted(
            "gen_ai_server_request_duration_seconds_count",
            "gen_ai_provider_name",
        );
        assert_eq!(providers, [provider], "{answer}");
        assert_eq!(fallback.asked(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_continuation_that_only_repeats_is_no_success() {
    let ended = |text: &str, reason: &str| stream(&(chunk(text) + &finish(reason)));
    let begun = r#"[{"name": "Ada Lovelace", "born": 18"#;
    let rest = r#"[{"name": "Ada Lovelace", "born": 1815}]"#;
    let raw = Raw::new(vec![
        ended(begun, "length"),
        ended(begun, "length"),
        ended(rest, "stop"),
    ])
    .await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    let (log, _guard) = listening();
    let answer = exchange(proxy.addr(), &post(ASK)).await;
    answer.has("\"status\":\"complete\"");
    let seen = metrics(&proxy, 1).await;
    let calls = |outcome: &str| {
        seen.sum(
            "restitch_calls_total",
            &[("rung", "words"), ("outcome", outcome)],
        )
    };
    assert_eq!(calls("ok"), 1.0, "{seen:?}");
    assert_eq!(calls("repeats"), 1.0, "{seen:?}");
    assert_eq!(calls("failed"), 0.0, "{seen:?}");
    seen.check(r#"restitch_cuts_total{model="m",cause="length"} 1"#);
    let told = log.text();
    told.has("cuts=1 causes=length continuations=2 ");
}

/// The proxy continues the slots of an answer in turn: the error that cut the first call does not
/// count for the calls for the rest.
#[tokio::test]
async fn each_call_of_several_choices_has_its_own_error() {
    let (begun, other) = (
        r#"[{"name": "Ada Lovelace", "born": 18"#,
        r#"[{"name": "Grace Hopper", "born": 19"#,
    );
    let second = |text: &str| chunk(text).replace("\"index\":0", "\"index\":1");
    let usage = "data: {\"id\":\"a\",\"choices\":[],\"usage\":{\"completion_tokens\":30}}\n\n";
    let first = vec![
        send(format!("{STREAM}{}{}{usage}", chunk(begun), second(other))),
        Piece::Reset,
    ];
    let rest = |text: &str, end: &str| full(&format!("{text}{end}"));
    let raw = Raw::new(vec![first, rest(begun, "15}]"), rest(other, "06}]")]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    let (log, _guard) = listening();
    let two = post(&ASK.replacen('{', "{\"n\":2,", 1));
    let answer = exchange(
        proxy.addr(),
        &two.replace("host: h", "host: h\r\nx-request-id: two"),
    )
    .await;
    answer.has("\"status\":\"complete\"");
    let seen = metrics(&proxy, 1).await;
    let calls = |error: &str| seen.calls(error);
    assert_eq!((calls("drop"), calls("")), (1.0, 2.0), "{seen:?}");
    seen.check(r#"restitch_cuts_total{cause="drop"} 2"#);
    let page = get(&proxy, "GET", "/answers/two?view=report").await;
    let shown: serde_json::Value = serde_json::from_str(&body_of(&page).0).unwrap();
    let steps = shown["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps
        .map(|step| (step["step"].as_str().unwrap(), step["call"].as_u64()))
        .collect();
    let of = |call: u64| ["requested", "call", "answered", "joined"].map(|step| (step, Some(call)));
    let mut expected = vec![("call", Some(0)), ("answered", Some(0)), ("cut", Some(0))];
    expected.extend(
        of(1)
            .into_iter()
            .chain([("done", None), ("cut", Some(0))])
            .chain(of(2)),
    );
    assert_eq!(steps[..expected.len()], expected, "{steps:?}");
    let told = log.text();
    told.has("cuts=2 causes=drop,drop continuations=2 ");
}

/// A client that leaves early has cost what its line says.
#[tokio::test]
async fn a_client_that_leaves_has_a_line_with_what_was_spent() {
    let usage = |tokens: u32| {
        format!(
            "data: {{\"id\":\"a\",\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\n"
        )
    };
    let ended = |text: &str, reason: &str, tokens: u32| {
        let end =
            finish(reason).replace("data: [DONE]\n\n", "") + &usage(tokens) + "data: [DONE]\n\n";
        stream(&(chunk(text) + &end))
    };
    let held = held("[1, 2, 3");
    let raw = Raw::new(vec![
        ended("[1, 2", "length", 30),
        ended("I can not.", "stop", 5),
        held,
    ])
    .await;
    let (log, _guard) = listening();
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    let mut client = begin(proxy.addr(), &post(ASK)).await;
    read_until(&mut client, ", 3").await;
    drop(client);
    metrics(&proxy, 1).await;
    let told = log.text();
    let fields =
        "cuts=1 causes=length continuations=2 failures=1 tokens_kept=30 tokens_regenerated=5 ";
    told.has(fields).has("end=\"left\"");
}

/// An answer that breaks off while it passes unread counts as an error of its call. An answer that
/// the operator ends does not count as a success.
#[tokio::test]
async fn calls_under_what_is_not_continued_have_their_errors() {
    let prose = vec![opening("Once upon a time"), Piece::Reset];
    let raw = Raw::new(vec![prose, vec![Piece::Hold]]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    exchange(proxy.addr(), &post(ASK)).await;
    let calls = |seen: &Exposition, error: &str| seen.calls(error);
    let seen = metrics(&proxy, 1).await;
    assert_eq!(calls(&seen, "drop"), 1.0, "{seen:?}");
    assert_eq!(calls(&seen, ""), 0.0, "{seen:?}");
    let addr = proxy.addr();
    let client = tokio::spawn(async move {
        exchange(
            addr,
            &post(ASK).replace("host: h", "host: h\r\nx-request-id: mine"),
        )
        .await
    });
    raw.wait(|state| state.requests == 2).await;
    let stop = "POST /answers/mine/stop HTTP/1.1\r\nhost: 127.0.0.1\r\nx-restitch-page: 1\r\n\r\n";
    exchange(proxy.admin_addr().unwrap(), stop).await;
    client.await.unwrap().begins("HTTP/1.1 503 ");
    let seen = metrics(&proxy, 2).await;
    assert_eq!(calls(&seen, "stopped"), 1.0, "{seen:?}");
    assert_eq!(calls(&seen, ""), 0.0, "{seen:?}");
}

/// A model that has answered has a line for each cause: what begins with 1 is no increase.
#[tokio::test]
async fn the_cuts_of_a_model_begin_with_none() {
    let raw = Raw::new(vec![full("[1]")]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    exchange(proxy.addr(), &post(ASK)).await;
    metrics(&proxy, 1).await;
    let text = get(&proxy, "GET", "/metrics").await;
    for cause in [
        "length",
        "drop",
        "eof",
        "idle",
        "in_band",
        "premature_stop",
        "other",
    ] {
        let upstream = raw.addr;
        let line = format!(
            "restitch_cuts_total{{route=\"default\",upstream=\"{upstream}\",model=\"m\",cause=\"{cause}\"}} 0\n"
        );
        text.of(&line).has(&line);
    }
}

/// A call has the name that the model has where it is made. A head without a byte after it is no
/// answer.
#[tokio::test]
async fn calls_are_those_of_the_model_that_is_asked() {
    let cut = || limited("[1, 2");
    let rest = || full("[1, 2, 3]");
    let error = || respond("503 Unavailable", "{}");
    let head_alone = || vec![send(STREAM), Piece::Hold];
    for (name, first, other, cut_model) in [
        ("the rest", vec![cut(), error()], vec![rest()], "m"),
        (
            "the rest after a head alone",
            vec![cut(), head_alone()],
            vec![rest()],
            "m",
        ),
        (
            "a head alone",
            vec![head_alone()],
            vec![cut(), rest()],
            "other",
        ),
    ] {
        let (main, fallback) = (Raw::new(first).await, Raw::new(other).await);
        let routes = "[[route]]\nfirst_byte_timeout = 0.1\nfallback = [{ upstream = \"{0}\", model = \"other\" }]\n";
        let (log, _guard) = listening();
        let proxy = in_front_of(&main, |proxy| {
            super::routes::with_routes(proxy, &[&fallback], routes)
        })
        .await;
        let answer = exchange(proxy.addr(), &post(ASK)).await;
        answer.of(name).has("\"status\":\"complete\"");
        let seen = metrics(&proxy, 1).await;
        let model = "gen_ai_request_model";
        let calls = seen.counted("gen_ai_client_operation_duration_seconds_count", model);
        assert!(calls.contains(&"other"), "{name}: {seen:?}");
        assert_eq!(
            seen.counted("gen_ai_server_request_duration_seconds_count", model),
            ["m"],
            "{name}"
        );
        assert_eq!(
            seen.counted("restitch_cuts_total", "model"),
            [cut_model],
            "{name}"
        );
        let answered = if cut_model == "m" {
            vec![main.addr, fallback.addr]
        } else {
            vec![fallback.addr]
        };
        assert_eq!(
            seen.counted("restitch_requests_total", "upstream"),
            [answered[0].to_string()],
            "{name}"
        );
        let answered = answered
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let told = log.text();
        told.of(name).has(format!("upstream=\"{answered}\" "));
    }
}

/// The metrics count a refusal before the proxy could read the request, too.
#[tokio::test]
async fn a_head_that_is_not_read_is_counted() {
    let (log, _guard) = listening();
    let raw = Raw::new(vec![]).await;
    let many = format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", "x: y\r\n".repeat(30));
    for (status, request) in [
        ("431", &many[..]),
        ("408", "GET / HTTP/1.1\r\n"),
        ("400", "\u{16}\u{3}\u{1}\r\n\r\n"),
    ] {
        let mut limits = Limits::default();
        limits.server.max_head_fields = 20;
        if status == "408" {
            limits.server.head_timeout = Duration::from_millis(50);
        }
        let proxy = in_front_of(&raw, |proxy| proxy.limits(limits)).await;
        let answer = exchange(proxy.addr(), request).await;
        answer.begins(format!("HTTP/1.1 {status} "));
        let id = answer
            .lines()
            .find_map(|line| line.strip_prefix("x-request-id: "))
            .unwrap();
        let seen = metrics(&proxy, 0).await;
        let refused = [("route", ""), ("upstream", ""), ("status", status)];
        assert_eq!(
            seen.sum("restitch_requests_total", &refused),
            1.0,
            "{status}: {seen:?}"
        );
        let told = log.text();
        told.has(format!("id={id} "));
        told.has(format!("message=answered status={status} end=\"whole\""));
    }
}

/// The table of the metrics is the documentation of `/metrics`.
#[tokio::test]
async fn the_table_describes_each_metric() {
    let mut limits = Limits::default();
    limits.keep.max_keep_time = Duration::from_secs(1);
    let sim = Sim::new(DOCUMENT, "answer@100 | 500~0 anchor".parse().unwrap())
        .start()
        .await;
    let upstream = sim.url();
    let route = format!("[[route]]\nfallback = [{{ upstream = \"{upstream}\" }}]\n");
    let proxy = TestProxy::new(upstream)
        .limits(limits)
        .with(|config| config.routes = Config::parse(&route).unwrap().routes)
        .admin(Some(LOOPBACK))
        .start()
        .await;
    let setup = Setup { sim, proxy };
    setup
        .stream()
        .await
        .assert_seamless(DOCUMENT, "by a fallback");
    let mut seen = metrics(&setup.proxy, 1).await;
    seen.add(doubtful().await);
    seen.add(with_certificate().await);
    for row in metric_rows() {
        // Only these platforms have `/proc`.
        if row.name.starts_with("process_") && cfg!(not(target_os = "linux")) {
            continue;
        }
        let family = row.name.strip_suffix("_total").unwrap_or(&row.name);
        let (kind, labels) = (seen.types.remove(family), seen.labels_of(family));
        assert_eq!(kind.as_deref(), Some(row.kind), "{row:?}");
        let described: BTreeSet<_> = row.labels.iter().copied().collect();
        assert_eq!(labels, described, "{row:?}");
        assert!(!row.meaning.is_empty() && !row.meaning.ends_with('.'));
    }
    assert_eq!(seen.types, BTreeMap::new(), "the table lacks them");
    let rows = metric_rows().into_iter().map(|row| {
        let labels: Vec<_> = row
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let (name, kind, labels) = (row.name, row.kind, labels.join(", "));
        format!("| `{name}` | {kind} | {labels} | {}. |\n", row.meaning)
    });
    let table: String = rows.collect();
    let page = include_str!("../../../../../contrib/metrics.md");
    page.of(format!(
        "contrib/metrics.md is stale. Its table is:\n{table}"
    ))
    .ends(format!("|---|---|---|---|\n{table}"));
}

/// A query with a wrong name finds nothing, and reports no error.
#[test]
fn queries_and_pages_name_metrics_that_exist() {
    let rows = metric_rows();
    let labels: BTreeSet<_> = rows.iter().flat_map(|row| row.labels.iter()).collect();
    for (file, text, least) in [
        (
            "alerts",
            include_str!("../../../../../contrib/alerts.yml"),
            8,
        ),
        (
            "dashboard",
            include_str!("../../../../../contrib/grafana.json"),
            20,
        ),
        ("page", include_str!("../../../../../docs/operating.md"), 8),
    ] {
        let mut named = BTreeSet::new();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for word in words.filter(|word| {
            ["restitch_", "gen_ai_", "process_"]
                .iter()
                .any(|start| word.starts_with(start))
        }) {
            let is_of = |row: &MetricRow| match row.kind {
                "histogram" => ["_bucket", "_sum", "_count", ""]
                    .iter()
                    .any(|suffix| word.strip_suffix(suffix) == Some(&row.name)),
                _ => word == row.name,
            };
            match rows.iter().find(|row| is_of(row)) {
                Some(row) => drop(named.insert(&row.name)),
                // `gen_ai_…` and `restitch_…` name all metrics of a prefix; Rust's module is
                // `restitch_proxy`.
                None => assert!(
                    labels.contains(&word)
                        || ["gen_ai_", "restitch_", "restitch_proxy"].contains(&word),
                    "{word} in {file}"
                ),
            }
        }
        assert!(named.len() >= least, "{file}: {named:?}");
    }
}

#[tokio::test]
async fn the_listener_answers_what_it_has() {
    let setup = measured("answer", 100).await;
    for (method, path, status, body) in [
        ("GET", "/healthz", "200 OK", "ok\n"),
        ("HEAD", "/healthz", "200 OK", ""),
        ("GET", "/readyz", "200 OK", "ready\n"),
        (
            "GET",
            "/page",
            "404 Not Found",
            "there is /, /metrics, /healthz, /readyz and /reload\n",
        ),
        (
            "DELETE",
            "/readyz?x",
            "405 Method Not Allowed",
            "allowed: GET, HEAD\n",
        ),
    ] {
        let answer = get(&setup.proxy, method, path).await;
        answer
            .of(format!("{method} {path}"))
            .begins(format!("HTTP/1.1 {status}\r\n"));
        answer
            .of(format!("{method} {path}"))
            .has("content-type: text/plain; charset=utf-8\r\n");
        assert_eq!(
            answer.contains("allow: GET, HEAD\r\n"),
            status.starts_with("405"),
            "{method} {path}: {answer}"
        );
        assert_eq!(
            answer.split_once("\r\n\r\n").unwrap().1,
            body,
            "{method} {path}"
        );
    }
    assert_eq!(setup.sim.calls().len(), 0);
    // The other listener serves no metrics.
    let main = get_at(setup.proxy.addr(), "/metrics").await;
    main.lacks("restitch_running");
    let main = get_at(setup.proxy.addr(), "/healthz").await;
    main.begins("HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_proxy_that_drains_is_not_ready() {
    let raw = Raw::new(vec![held("[1, 2")]).await;
    let proxy = in_front_of(&raw, |proxy| proxy).await;
    let (addr, admin) = (proxy.addr(), proxy.admin_addr().unwrap());
    let ready = || get_at(admin, "/readyz");
    ready().await.ends("\r\n\r\nready\n");
    let mut client = begin(addr, &post(ASK)).await;
    read_until(&mut client, "[1, 2").await;
    let stopping = tokio::spawn(proxy.shutdown());
    let draining = loop {
        let answer = ready().await;
        if !answer.ends_with("ready\n") {
            break answer;
        }
    };
    draining.begins("HTTP/1.1 503 Service Unavailable");
    draining.ends("\r\n\r\ndraining: the proxy was told to stop\n");
    let metrics = get_at(admin, "/metrics").await;
    metrics.has("restitch_running 1\n");
    drop(client);
    assert!(stopping.await.unwrap());
    assert!(
        tokio::net::TcpStream::connect(admin).await.is_err(),
        "the listener ends with the last answer"
    );
}

/// Returns an address that refuses connections: the port was closed before.
async fn nobody() -> SocketAddr {
    tokio::net::TcpListener::bind(LOOPBACK)
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}

#[tokio::test]
async fn a_proxy_without_its_upstream_is_ready() {
    let gone = nobody().await;
    let upstream = format!("http://{gone}");
    let proxy = TestProxy::new(upstream).admin(Some(LOOPBACK)).start().await;
    let answer = get(&proxy, "GET", "/readyz").await;
    answer.begins("HTTP/1.1 200 OK").ends("\r\n\r\nready\n");
    let answer = get(&proxy, "GET", "/readyz?verbose").await;
    answer.begins("HTTP/1.1 200 OK");
    answer.has(format!("ready\nupstream {gone}: not reached: "));
    let metrics = get(&proxy, "GET", "/metrics").await;
    metrics.has(format!("restitch_upstream_up{{upstream=\"{gone}\"}} 0\n"));
}

/// Each upstream of a route or a fallback is tried and named once.
#[tokio::test]
async fn the_verbose_readiness_names_each_upstream_once() {
    let raw = Raw::new(Vec::new()).await;
    let (gone, fallback) = (nobody().await, nobody().await);
    let route = |path: &str, upstream: SocketAddr| {
        format!(
            "[[route]]\npath = \"{path}\"\nupstream = \"http://{upstream}\"\nfallback = [{{ upstream = \"http://{fallback}\" }}]\n"
        )
    };
    let routes = [route("/0", gone), route("/1", raw.addr), route("/2", gone)].concat();
    let proxy = in_front_of(&raw, |proxy| {
        super::routes::with_routes(proxy, &[], &routes)
    })
    .await;
    let answer = get(&proxy, "GET", "/readyz?verbose").await;
    let lines: Vec<_> = answer.split_once("\r\n\r\n").unwrap().1.lines().collect();
    assert_eq!(lines.len(), 4, "{answer}");
    assert_eq!(
        lines[..2],
        ["ready", &format!("upstream {}: reached", raw.addr)]
    );
    lines[2].begins(format!("upstream {gone}: not reached: "));
    lines[3].begins(format!("upstream {fallback}: not reached: "));
}
