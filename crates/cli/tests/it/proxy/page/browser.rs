//! The page in a real browser.

use std::sync::Arc;

use restitch::Limits;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use super::super::raw::*;
use super::driver::Browser;
use super::{asked_as, proxy, wait_for};

/// Texts that want to be more than text.
const HOSTILE: &str = "</pre></script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>\
    <a href='javascript:window.owned = 1'>refused</a>\u{202e}\u{2066}\u{200b}\u{0}\u{7f}&lt;";

#[tokio::test]
#[ignore = "nightly: starts a browser"]
async fn a_person_follows_an_answer_and_stops_it() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let rest = Arc::new(Notify::new());
    let raw = Raw::new(vec![
        limited("{\"title\": \"Hel"),
        vec![
            opening("{\"title\": \"Hello\", \"rows\": [[1, "),
            Piece::Await(Arc::clone(&rest)),
            send(chunk("2")),
            Piece::Hold,
        ],
    ])
    .await;
    let proxy = proxy(&raw, 2, Limits::default()).await;
    browser
        .open(&format!("http://{}/", proxy.admin_addr().unwrap()))
        .await;
    browser
        .wait("document.getElementById('empty').innerText === 'No answers yet.'")
        .await;
    let mut client = begin(proxy.addr(), &asked_as("mine", ASK)).await;
    read_until(&mut client, "[[1").await;
    browser
        .wait("document.querySelector('#rows tr.running')")
        .await;
    // The arrow moves to the first answer, the other key opens it.
    browser.press(&["\u{e015}", "\u{e007}"]).await;
    browser
        .wait("document.querySelector('pre')?.innerText.includes('[[1,')")
        .await;
    let text = browser
        .run("return document.querySelector('pre').textContent")
        .await;
    assert_eq!(text, "{\"title\": \"Helcall 1lo\", \"rows\": [[1, ");
    let said = browser
        .run("return [...document.querySelectorAll('.said')].map((line) => line.innerText)")
        .await;
    let said = said.as_array().unwrap();
    assert_eq!(said[0], "cut: length, byte 14 at /title");
    said[1]
        .as_str()
        .unwrap()
        .of(said)
        .begins("joined by anchor at byte 14 at /title, 100 % sure");
    let winner = browser
        .run("return document.querySelector('.scores tr.won').textContent")
        .await;
    winner.as_str().unwrap().has("anchor");
    rest.notify_one();
    browser
        .wait("document.querySelector('pre').textContent.endsWith('[[1, 2')")
        .await;
    // Once may be a mistake.
    browser.run("document.getElementById('stop').focus()").await;
    browser.press(&["\u{e007}"]).await;
    assert_eq!(
        browser
            .run("return document.getElementById('stop').innerText")
            .await,
        "Press again to stop"
    );
    browser.press(&["\u{e007}"]).await;
    browser
        .wait("document.getElementById('facts').innerText.includes('(stopped)')")
        .await;
    raw.wait(|state| state.left == 1).await;
    assert_eq!(
        wait_for(&proxy, |answer| answer["phase"] == "ended").await["stop"],
        "stopped"
    );
    browser.press(&["\u{e00c}"]).await;
    browser
        .wait("document.getElementById('answer').hidden")
        .await;
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.end().await;
}

#[tokio::test]
#[ignore = "nightly: starts a browser"]
async fn a_hostile_answer_stays_text() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let deep = "[".repeat(1000);
    let long = "y".repeat(1_000_000);
    let document = format!("{{{quoted}: {quoted}, \"long\": \"{long}\", \"deep\": {deep}");
    let mut events = String::new();
    for piece in document.as_bytes().chunks(1 << 16) {
        events += &chunk(std::str::from_utf8(piece).unwrap_or("?"));
    }
    let raw = Raw::new(vec![vec![send(format!("{STREAM}{events}")), Piece::Hold]]).await;
    let proxy = proxy(&raw, 1, Limits::default()).await;
    let mut client = connect(proxy.addr()).await;
    let ask = ASK.replace("\"m\"", &quoted);
    // HTTP/1.1 writes the sizes of chunks into the text, also between the brackets.
    let request = asked_as("mine", &ask).replacen("HTTP/1.1", "HTTP/1.0", 1);
    client.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut client, &deep).await;
    browser
        .open(&format!("http://{}/#mine", proxy.admin_addr().unwrap()))
        .await;
    browser
        .wait("document.querySelector('pre').textContent.endsWith('[[[')")
        .await;
    assert_eq!(
        browser
            .run("return [window.owned ?? null, document.querySelectorAll('img').length]")
            .await
            .to_string(),
        "[null,0]"
    );
    assert_eq!(
        browser
            .run("return document.querySelectorAll('script').length")
            .await,
        1
    );
    // The page bounds the shown text and drops its beginning.
    let shown = browser
        .run("return document.querySelector('pre').textContent.length")
        .await
        .as_u64()
        .unwrap();
    assert!((200_000..=320_000).contains(&shown), "{shown}");
    let model = browser
        .run("return document.querySelector('#rows td.model').textContent")
        .await;
    model
        .as_str()
        .unwrap()
        .has("<script>window.owned = 1</script>");
    model
        .as_str()
        .unwrap()
        .of(&model)
        .has("⟦202E⟧⟦2066⟧⟦200B⟧⟦0000⟧⟦007F⟧&lt;");
    // The address of the text is no page either.
    browser
        .open(&format!(
            "http://{}/answers/mine?view=text",
            proxy.admin_addr().unwrap()
        ))
        .await;
    browser
        .wait("document.body.textContent.includes('<script>window.owned = 1')")
        .await;
    assert_eq!(
        browser.run("return window.owned ?? null").await,
        serde_json::Value::Null
    );
    browser.end().await;
}

/// An upstream names the end of its answer as it likes.
#[tokio::test]
#[ignore = "nightly: starts a browser"]
async fn a_hostile_end_stays_text() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let raw = Raw::new(vec![
        limited("[1, 2"),
        stream(&(chunk("[1, 2, 3") + &finish(HOSTILE))),
    ])
    .await;
    let proxy = proxy(&raw, 1, Limits::default()).await;
    exchange(proxy.addr(), &asked_as("mine", ASK)).await;
    browser
        .open(&format!("http://{}/#mine", proxy.admin_addr().unwrap()))
        .await;
    browser
        .wait("document.getElementById('calls').textContent.includes('<img src=x')")
        .await;
    let said = browser
        .run("return document.getElementById('calls').textContent")
        .await;
    said.as_str()
        .unwrap()
        .has("⟦202E⟧⟦2066⟧⟦200B⟧⟦0000⟧⟦007F⟧&lt;");
    browser.end().await;
}

/// A person who aims at a row must not hit another one.
#[tokio::test]
#[ignore = "nightly: starts a browser"]
async fn rows_stay_under_the_pointer_and_are_found_by_their_id() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let raw = Raw::new(vec![full("[1]"); 3]).await;
    let proxy = proxy(&raw, 0, Limits::default()).await;
    let ask = async |id: &str| exchange(proxy.addr(), &asked_as(id, ASK)).await;
    let ids = "return [...document.querySelectorAll('#rows .id')].map((cell) => cell.textContent)";
    ask("first").await;
    browser
        .open(&format!("http://{}/", proxy.admin_addr().unwrap()))
        .await;
    browser.wait("document.querySelector('#rows a')").await;
    browser.point_at("#rows tr").await;
    ask("second").await;
    browser
        .wait("document.getElementById('new').innerText.startsWith('1 new answer ')")
        .await;
    assert_eq!(browser.run(ids).await, serde_json::json!(["first"]));
    // A filter holds also while the pointer rests.
    browser
        .run("document.querySelector('[data-filter=failed]').click()")
        .await;
    browser
        .wait("document.querySelectorAll('#rows tr').length === 0")
        .await;
    browser
        .run("document.querySelector('[data-filter=all]').click()")
        .await;
    browser.point_at("h1").await;
    browser
        .wait("document.querySelectorAll('#rows tr').length === 2")
        .await;
    assert_eq!(
        browser.run(ids).await,
        serde_json::json!(["second", "first"])
    );
    assert_eq!(
        browser
            .run("return document.getElementById('new').hidden")
            .await,
        true
    );
    browser
        .run("document.getElementById('search').focus()")
        .await;
    browser.press(&["i", "r"]).await;
    browser
        .wait("document.querySelectorAll('#rows tr').length === 1")
        .await;
    assert_eq!(browser.run(ids).await, serde_json::json!(["first"]));
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.end().await;
}

/// Lists and charts are for all readers, in both colors, on a wide screen and on a phone, whose
/// width the page does not exceed.
#[tokio::test]
#[ignore = "nightly: starts a browser"]
async fn axe_finds_nothing_wrong() {
    let axe = match super::super::sdks::javascript() {
        Ok(folder) => folder.join("node_modules/axe-core/axe.min.js"),
        Err(reason) => return super::super::sdks::skip("JavaScript", &reason),
    };
    let Some(browser) = Browser::start().await else {
        return;
    };
    let axe = std::fs::read_to_string(axe).unwrap();
    let raw = super::cut_and_joined().await;
    let proxy = proxy(&raw, 1, Limits::default()).await;
    let id = "a-request-id-that-is-long-and-has-no-place-to-break-4bf92f3577b34da6";
    exchange(proxy.addr(), &asked_as(id, ASK)).await;
    let fits = "return document.documentElement.scrollWidth <= innerWidth";
    for (scheme, width) in [
        ("light", 1400),
        ("dark", 1400),
        ("light", 360),
        ("dark", 360),
    ] {
        browser.resize(width, 800).await;
        browser.prefer(scheme).await;
        browser
            .open(&format!("http://{}/", proxy.admin_addr().unwrap()))
            .await;
        browser.wait("document.querySelector('#rows a')").await;
        browser.run(&axe).await;
        for part in ["the list", "the answer"] {
            let wrong = browser
                .run(
                    "return axe.run().then(({ violations }) =>
                        violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))",
                )
                .await;
            assert_eq!(wrong, serde_json::json!([]), "{scheme}, {width}: {part}");
            assert_eq!(browser.run(fits).await, true, "{scheme}, {width}: {part}");
            browser
                .run("document.querySelector('#rows a').click()")
                .await;
            browser
                .wait("document.querySelector('pre')?.textContent.includes('é')")
                .await;
        }
    }
    browser.end().await;
}
