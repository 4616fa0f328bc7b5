//! Answers in files, which outlive the process that writes them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::processes::{Process, kill_again_and_again};
use super::*;
use restitch_testing::says::Says;

/// A folder of its own. Dropping it removes it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("restitch-files-{}-{number}", std::process::id())))
    }

    pub(super) fn address(&self) -> String {
        format!("file:{}", self.0.display())
    }

    fn files(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        let logs = self
            .files()
            .into_iter()
            .filter(|path| path.extension().is_some());
        logs.map(|path| String::from_utf8(std::fs::read(path).unwrap()).unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn addr(process: &Process) -> std::net::SocketAddr {
    process
        .url
        .strip_prefix("http://")
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn an_answer_outlives_its_process() {
    let folder = Folder::new();
    let raw = Raw::new(vec![
        stream(&five().concat()),
        unfinished(),
        full("[1, 2, 3]"),
    ])
    .await;
    let upstream = format!("http://{}", raw.addr);
    let first = Process::start(&upstream, &folder.address()).await;
    let whole = exchange(addr(&first), &ask_kept()).await;
    let (ended, other) = (
        header(&whole, "x-restitch-stream"),
        ask_kept().replace("sk-1", "sk-2"),
    );
    let mut client = begin(addr(&first), &other).await;
    let seen = read_until(&mut client, "id: 1-2\n\n").await;
    let running = header(&seen, "x-restitch-stream");
    first.kill().await;
    let texts = folder.texts();
    assert!(
        texts.len() == 2 && texts.iter().all(|text| !text.contains("sk-")),
        "{texts:?}"
    );

    let second = Process::start(&upstream, &folder.address()).await;
    let response = exchange(addr(&second), &about("GET", ended, &after("1-2"))).await;
    assert_eq!(body_of(&response), (numbered(&five()[2..], 3), true));
    let again = with(
        &post(ASK),
        "authorization: Bearer sk-1\r\nlast-event-id: 1-3",
    );
    assert_eq!(
        body_of(&exchange(addr(&second), &again).await),
        (numbered(&five()[3..], 4), true)
    );
    expect(addr(&second), &about("GET", running, ""), 404).await;
    let get = about("GET", running, &after("1-2")).replace("sk-1", "sk-2");
    let (rest, is_whole) = body_of(&exchange(addr(&second), &get).await);
    assert!(is_whole, "{rest}");
    rest.has("id: 2-1\n").has("[DONE]");
    assert_eq!(raw.asked(), 3);
    for (id, key) in [(ended, "sk-1"), (running, "sk-2")] {
        let delete = about("DELETE", id, "").replace("sk-1", key);
        expect(addr(&second), &delete, 204).await;
    }
    assert_eq!(folder.texts(), [""; 0], "what is deleted has no file");
}

#[tokio::test]
async fn a_damaged_part_of_an_answer_is_asked_for_again() {
    let folder = Folder::new();
    let rest = full("[1, 2, 3]");
    let raw = Raw::new(vec![
        stream(&five().concat()),
        stream(&five().concat()),
        rest,
    ])
    .await;
    let upstream = format!("http://{}", raw.addr);
    let first = Process::start(&upstream, &folder.address()).await;
    let ids = ["sk-1", "sk-2"].map(|key| ask_kept().replace("sk-1", key));
    let mut streams = Vec::new();
    for ask in &ids {
        streams.push(header(&exchange(addr(&first), ask).await, "x-restitch-stream").to_owned());
    }
    first.kill().await;
    // One file has a changed digit in an event. The other file is damaged at its beginning.
    let log = |id: &str| folder.0.join(format!("{id}.log"));
    let text = std::fs::read_to_string(log(&streams[0])).unwrap();
    let (digit, changed) = (r#"\"2\""#, r#"\"7\""#);
    text.has(digit);
    std::fs::write(log(&streams[0]), text.replacen(digit, changed, 1)).unwrap();
    let text = std::fs::read_to_string(log(&streams[1])).unwrap();
    std::fs::write(log(&streams[1]), text.replacen("answer", "answe", 1)).unwrap();

    let second = Process::start(&upstream, &folder.address()).await;
    let (body, is_whole) = body_of(&exchange(addr(&second), &about("GET", &streams[0], "")).await);
    assert!(is_whole, "{body}");
    body.begins(numbered(&five()[..1], 1));
    body.lacks("\"7\"").lacks("id: 1-2\n").has("[DONE]");
    assert_eq!(text_of(&body), "[1, 2, 3]");
    let get = about("GET", &streams[1], "").replace("sk-1", "sk-2");
    expect(addr(&second), &get, 404).await;
    assert_eq!(raw.asked(), 3);
}

#[tokio::test]
async fn clients_get_whole_documents_although_the_proxy_is_killed() {
    let folder = Folder::new();
    kill_again_and_again(&folder.address(), 1).await;
}

#[tokio::test]
async fn a_folder_has_one_process_and_private_files() {
    let folder = Folder::new();
    let raw = Raw::new(vec![stream(&five().concat())]).await;
    let proxy = raw.unbound(keeping()).store(folder.address()).start().await;
    let error = raw
        .unbound(keeping())
        .store(folder.address())
        .bind(LOOPBACK)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store: the store failed: another process uses the folder"
    );
    exchange(proxy.addr(), &ask_kept()).await;
    assert_eq!(folder.files().len(), 2);
    #[cfg(unix)]
    for path in folder.files().iter().chain([&folder.0]) {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path:?}");
    }
}
