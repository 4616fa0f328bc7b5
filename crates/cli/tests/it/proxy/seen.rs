//! The operator's log: one line per request with its outcome, and an id on every line.

use restitch::Limits;

use super::raw::*;

/// A request with an id and a trace of its own.
fn named(id: &str) -> String {
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    post(ASK).replace(
        "host: h",
        &format!("host: h\r\nx-request-id: {id}\r\n{trace}"),
    )
}

/// Waits until the log has a text, and returns the whole log.
pub(super) async fn logged(log: &Log, text: &str) -> String {
    for _ in 0..1000 {
        let seen = log.text();
        if seen.contains(text) {
            return seen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no {text} in {}", log.text());
}

#[tokio::test]
async fn each_request_has_a_line() {
    let (log, _guard) = listening();
    let usage = |tokens: u32| {
        format!(
            "data: {{\"id\":\"a\",\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\n"
        )
    };
    let cut = chunk("[1, 2")
        + &finish("length").replace("data: [DONE]\n\n", "")
        + &usage(30)
        + "data: [DONE]\n\n";
    let rest = chunk("[1, 20]")
        + &finish("stop").replace("data: [DONE]\n\n", "")
        + &usage(7)
        + "data: [DONE]\n\n";
    let raw = Raw::new(vec![stream(&cut), stream(&rest)]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let seen = exchange(proxy.addr(), &named("req-1")).await;
    seen.has("\"status\":\"complete\"");
    let told = logged(&log, "message=answered").await;
    told.has_all([
        "id=req-1 ",
        "trace=4bf92f3577b34da6a3ce929d0e0e4736 ",
        "method=POST ",
        "path=\"/v1/chat/completions\" ",
        "wire=openai-chat ",
        "model=\"m\" ",
        " status=200 ",
        "upstream_status=200 ",
        "outcome=\"complete\" ",
        "cuts=1 ",
        "causes=length ",
        "continuations=1 ",
        "tokens_kept=30 ",
        "tokens_regenerated=7 ",
        "first_byte_ms=",
        "longest_silence_ms=",
        "duration_ms=",
        "end=\"whole\" ",
    ]);
    // Both calls carry what names the request and its trace.
    for call in [raw.request(0), raw.request(1)] {
        call.has("x-request-id: req-1\r\n");
        call.has("traceparent: 00-4bf92f");
    }
}

/// The client of a trusted proxy is the one that the proxy names. Support of a provider asks for the
/// provider's own ids.
#[tokio::test]
async fn a_line_has_the_client_behind_a_proxy_and_the_ids_of_upstreams() {
    let (log, _guard) = listening();
    let named = |text: &str, reason: &str, id: &str| {
        let head = STREAM.replace("\r\n\r\n", &format!("\r\n{id}\r\n\r\n"));
        vec![send(format!("{head}{}{}", chunk(text), finish(reason)))]
    };
    let raw = Raw::new(vec![
        named("[1, 2", "length", "x-request-id: theirs-1"),
        named("[1, 2, 3]", "stop", "request-id: theirs-2"),
        named("[1]", "stop", "x-other: 1"),
    ])
    .await;
    let proxy = raw.unbound(Limits::default());
    let trusted = "127.0.0.0/8".parse().unwrap();
    let proxy = proxy
        .with(|config| config.proxy.trusted_proxies = vec![trusted])
        .start()
        .await;
    let forwarded = "host: h\r\nx-forwarded-for: 1.1.1.1, 203.0.113.9, 127.0.0.2";
    let answer = exchange(proxy.addr(), &post(ASK).replace("host: h", forwarded)).await;
    answer.has("x-restitch-upstream-request-id: theirs-1\r\n");
    let told = logged(&log, "message=answered").await;
    told.has("client=203.0.113.9 ");
    told.has("upstream_requests=\"theirs-1,theirs-2\" ");
    for message in ["message=cut ", "message=joined "] {
        let (_, line) = told.split_once(message).unwrap();
        let place = format!("route=\"default\" upstream=\"{}\" model=\"m\" ", raw.addr);
        let line = line.split("message=").next().unwrap();
        line.has(&place);
    }
    exchange(proxy.addr(), &post(ASK)).await;
    logged(&log, "client=127.0.0.1 ").await;
}

#[tokio::test]
async fn an_error_of_the_proxys_own_has_the_id_of_its_request() {
    let (log, _guard) = listening();
    let error =
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let raw = Raw::new(vec![vec![send(error.to_owned())]]).await;
    let proxy = raw.proxy(Limits::default()).await;
    let id_in = |response: &str| {
        let head = response.split("\r\n\r\n").next().unwrap().to_owned();
        head.lines()
            .find_map(|line| line.strip_prefix("x-request-id: ").map(str::to_owned))
    };
    let websocket =
        "GET /x HTTP/1.1\r\nhost: h\r\nconnection: close, upgrade\r\nupgrade: websocket\r\n";
    let refused = exchange(
        proxy.addr(),
        &format!("{websocket}x-request-id: mine\r\n\r\n"),
    )
    .await;
    assert_eq!(id_in(&refused).as_deref(), Some("mine"), "{refused}");
    let refused = exchange(proxy.addr(), &format!("{websocket}\r\n")).await;
    let made = id_in(&refused).unwrap_or_else(|| panic!("{refused}"));
    logged(&log, &format!("id={made} ")).await;
    // A HEAD has no body to wait for.
    let refused = exchange(
        proxy.addr(),
        &format!("{}\r\n", websocket.replacen("GET", "HEAD", 1)),
    )
    .await;
    refused.begins("HTTP/1.1 501");
    let told = logged(&log, "method=HEAD").await;
    assert!(told.matches("end=\"whole\"").count() == 3, "{told}");
    told.lacks("end=\"left\"");
    // The upstream's own errors have the id, too.
    let passed = get_at(proxy.addr(), "/x").await;
    assert!(id_in(&passed).is_some(), "{passed}");
    passed.begins("HTTP/1.1 404");
}

#[tokio::test]
async fn a_line_says_how_the_answer_ended() {
    let (log, _guard) = listening();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let prose = chunk("Hello");
    let open = send(format!("{head}{:x}\r\n{prose}\r\n", prose.len()));
    let (broken, held) = (vec![open.clone()], vec![open, Piece::Hold]);
    let models = vec![send(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
    )];
    let raw = Raw::new(vec![models, broken, held]).await;
    let proxy = raw.proxy(Limits::default()).await;

    get_at(proxy.addr(), "/v1/models?key=hidden").await;
    let told = logged(&log, "message=answered").await;
    let route = format!("route=\"default\" upstream=\"{}\"", raw.addr);
    told.has(format!(
        "path=\"/v1/models\" {route} status=404 upstream_status=404 bytes=2 "
    ));
    told.has("end=\"whole\"").lacks("hidden");

    exchange(proxy.addr(), &named("bro ken")).await;
    let told = logged(&log, "end=\"broken\"").await;
    told.of("an id that is not plain is replaced")
        .lacks("bro ken");

    let mut client = begin(proxy.addr(), &named("c")).await;
    read_until(&mut client, "Hello").await;
    drop(client);
    logged(&log, "end=\"left\"").await;

    // Nothing is said of a probe, and a refusal has a line, too.
    get_at(proxy.addr(), "/healthz").await;
    get_at(proxy.addr(), "/..%2fx").await;
    let told = logged(&log, " status=400 ").await;
    told.has("path=\"/..%2fx\"").lacks("healthz");
}

mod command {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::process::{Child, Command, Stdio};

    use serde_json::Value;

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Starts the proxy with these arguments, asks it for a path with an id, and returns the lines
    /// after its start up to the one about the answer.
    fn lines(args: &[&str]) -> Vec<String> {
        lines_until(args, |line| line.contains("answered"))
    }

    /// Starts the proxy. Returns the lines that follow its first one, and its address.
    fn started(
        args: &[&str],
        upstream: &str,
    ) -> (impl Iterator<Item = String> + use<>, String, Running) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restitch"));
        command.args([
            "proxy",
            "--upstream",
            upstream,
            "--listen",
            "127.0.0.1:0",
            "--set",
            "proxy.threads=1",
        ]);
        command
            .args(args)
            .env_remove("RESTITCH_CORPUS")
            .env_remove("RESTITCH_TABLES")
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = Running(command.spawn().unwrap());
        let mut words = BufReader::new(child.0.stderr.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let listening = words
            .find(|line| line.contains("listening on http://"))
            .unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&listening).is_ok(),
            args.contains(&"proxy.log_format=json"),
            "{listening}"
        );
        let address = listening
            .split("http://")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned();
        (words, address, child)
    }

    /// The same up to another line.
    fn lines_until(args: &[&str], is_last: impl Fn(&str) -> bool) -> Vec<String> {
        let (words, address, _running) = started(args, "http://127.0.0.1:9");
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(crate::cli::LONG)).unwrap();
        write!(
            socket,
            "GET /v1/models HTTP/1.0\r\nhost: h\r\nx-request-id: req-7\r\n\r\n"
        )
        .unwrap();
        socket.read_to_string(&mut String::new()).unwrap();
        let mut lines = Vec::new();
        for line in words {
            let is_last = is_last(&line);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
        panic!("no line about the answer: {lines:?}");
    }

    /// Also the lines about what happens while an answer is on its way.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_line_of_a_cut_answer_has_its_id() {
        use super::*;
        let cut = limited("[1, 2");
        let junk = full("I can not.");
        let rest = full("[1, 2, 3]");
        let passes = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>";
        let raw = Raw::new(vec![cut, junk, rest, vec![send(passes), Piece::Hold]]).await;
        let folder = crate::cli::folder(
            "seen",
            &[(
                "c.toml",
                b"[limits]\nfirst_byte_timeout = 0.3\nidle_timeout = 0.3\n",
            )],
        );
        let file = folder.join("c.toml");
        let settings = [
            "--set",
            "proxy.log_format=json",
            "--log",
            "restitch=debug",
            "--config",
            file.to_str().unwrap(),
        ];
        let (mut words, address, _running) = started(&settings, &format!("http://{}", raw.addr));
        for _ in 0..2 {
            exchange(address.parse().unwrap(), &named("req-7")).await;
        }
        let mut told = Vec::new();
        while !told.iter().any(|line: &Value| line["end"] == "broken") {
            told.push(serde_json::from_str(&words.next().unwrap()).unwrap());
        }
        for message in [
            "cut",
            "asking for the rest",
            "a call failed",
            "joined",
            "done",
            "a body stopped",
        ] {
            let lines: Vec<_> = told
                .iter()
                .filter(|line| line["message"] == message)
                .collect();
            assert!(
                !lines.is_empty() && lines.iter().all(|line| line["span"]["id"] == "req-7"),
                "{message}: {told:#?}"
            );
        }
    }

    /// Returns the keys and values of the fields of a line.
    fn pairs(line: &str) -> Vec<(&str, String)> {
        let (mut pairs, mut rest) = (Vec::new(), line);
        loop {
            let (key, value) = rest.split_once('=').unwrap();
            let is_of_key = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(key.chars().all(is_of_key), "{key}: {line}");
            let value_end = if value.starts_with('"') {
                let mut texts = serde_json::Deserializer::from_str(value).into_iter::<String>();
                pairs.push((key, texts.next().unwrap().unwrap()));
                texts.byte_offset()
            } else {
                let value_end = value.find(' ').unwrap_or(value.len());
                pairs.push((key, value[..value_end].to_owned()));
                value_end
            };
            match value[value_end..].strip_prefix(' ') {
                Some(next) => rest = next,
                None => {
                    assert_eq!(value.len(), value_end, "{line}");
                    return pairs;
                }
            }
        }
    }

    /// At `info`, a continued answer has one line, whatever its request says.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_continued_answer_has_one_line_that_its_client_cannot_forge() {
        use super::*;
        let cut = limited("[1, 2");
        let rest = full("[1, 2, 3]");
        let raw = Raw::new(vec![cut.clone(), rest.clone(), cut, rest]).await;
        let (mut words, address, _running) = started(&[], &format!("http://{}", raw.addr));
        let model = "m\" end=left\nlevel=error msg=forged \u{1b}[2J\\";
        let body = ASK.replace("\"m\"", &serde_json::json!(model).to_string());
        let id = "r 1=\"2\" level=error";
        let request = post(&body).replace("host: h", &format!("host: h\r\nx-request-id: {id}"));
        for _ in 0..2 {
            let answer = exchange(address.parse().unwrap(), &request).await;
            answer.has("\"status\":\"complete\"");
            let line = words.next().unwrap();
            let (head, fields) = line.split_once(": restitch::access: answered ").unwrap();
            let pairs = pairs(fields);
            let value = |key: &str| {
                let mut values = pairs.iter().filter(|(name, _)| *name == key);
                let value = values.next().map(|(_, value)| value.as_str());
                assert_eq!(values.next(), None, "{key} is there twice: {line}");
                value.unwrap_or_else(|| panic!("no {key}: {line}"))
            };
            for (key, expected) in [
                // The proxy escapes control characters of a name.
                (
                    "model",
                    "m\" end=left\\nlevel=error msg=forged \\u{1b}[2J\\",
                ),
                ("outcome", "complete"),
                ("continuations", "1"),
                ("end", "whole"),
            ] {
                assert_eq!(value(key), expected, "{key}: {line}");
            }
            // An id that is not plain is replaced.
            let is_plain = |c: char| c.is_ascii_alphanumeric();
            let (_, own) = head.split_once(" INFO request{id=").unwrap();
            let own = own.strip_suffix('}').unwrap();
            assert!(!own.is_empty() && own.chars().all(is_plain), "{line}");
        }
    }

    #[test]
    fn every_line_has_the_id_of_its_request() {
        let text = lines(&[]);
        assert!(
            text.len() == 2
                && text
                    .iter()
                    .all(|line| line.contains(" request{id=req-7}: ")),
            "{text:#?}"
        );

        // Whatever level the lines have.
        for filter in ["warn", "restitch::access=info"] {
            let filtered = lines_until(&["--log", filter], |line| {
                filter == "warn" || line.contains("answered")
            });
            assert!(
                !filtered.is_empty()
                    && filtered
                        .iter()
                        .all(|line| line.contains(" request{id=req-7}: ")),
                "{filtered:#?}"
            );
        }

        let json = lines(&["--set", "proxy.log_format=json"]);
        let json: Vec<Value> = json
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let texts = json
            .iter()
            .flat_map(|line| line.as_object().unwrap().values().filter_map(Value::as_str));
        assert!(
            texts.clone().all(|text| !text.contains('"')),
            "a text is quoted once: {json:#?}"
        );
        assert_eq!(json[1]["path"], "/v1/models");
        assert!(
            json.iter().all(|line| line["span"]["id"] == "req-7"),
            "{json:#?}"
        );
        let last = &json[1];
        assert_eq!(last["message"], "answered");
        assert_eq!(last["level"], "INFO");
        assert_eq!(last["status"], 502);
        assert_eq!(last["target"], "restitch::access");

        // By module: the warning that the upstream can't be reached is left out.
        let access = lines(&["--log", "off,restitch::access=info"]);
        assert_eq!(access.len(), 1, "{access:#?}");
    }
}

/// Returns the arguments of a macro, whose text begins after the opening bracket.
fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut is_text, mut list) = (0, 0, false, Vec::new());
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if is_text => drop(bytes.next()),
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth > 0 => depth -= 1,
            b')' | b',' if depth == 0 => {
                list.push(text[start..at].trim());
                start = at + 1;
                if byte == b')' {
                    break;
                }
            }
            _ => {}
        }
    }
    list
}

/// Every field of every line of the proxy is documented.
#[test]
fn the_page_names_the_fields_of_all_lines() {
    let page = include_str!("../../../../../docs/operating.md");
    let source = restitch_testing::root().join("crates/proxy/src");
    let (mut folders, mut count) = (
        vec![source, restitch_testing::root().join("crates/http/src")],
        0,
    );
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let code = std::fs::read_to_string(&entry).unwrap();
            for line in code.split("tracing::").skip(1) {
                let macros = ["debug!(", "info!(", "warn!(", "error!(", "info_span!("];
                let Some(line) = macros.into_iter().find_map(|name| line.strip_prefix(name)) else {
                    continue;
                };
                let fields = arguments(line)
                    .into_iter()
                    .filter(|part| !part.starts_with(['"']) && !part.is_empty());
                let is_field =
                    |part: &&str| !part.starts_with("target:") && *part != "parent: None";
                for part in fields.filter(is_field) {
                    let field = part
                        .split('=')
                        .next()
                        .unwrap()
                        .trim()
                        .trim_start_matches(['%', '?']);
                    count += 1;
                    page.of(format!("{}: {part}", entry.display()))
                        .has(format!("`{field}`"));
                }
            }
        }
    }
    assert!(count > 100, "{count}");
    assert_eq!(
        arguments("a = f(1, \"x, )\"), %b, \"c, d\") e"),
        ["a = f(1, \"x, )\")", "%b", "\"c, d\""]
    );
}
