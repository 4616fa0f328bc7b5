"""What a client may do while its answer is made whole."""

import asyncio
import concurrent.futures
import importlib
import json
import logging
import os
import threading
import time

import pytest
from conftest import Reply

httpx2 = pytest.importorskip("httpx2")
whole = importlib.import_module("restitch.httpx2")

PATH = "/v1/chat/completions"


def chunk(text=None, finish=None):
    delta = {} if text is None else {"content": text}
    data = {"id": "a", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(data)}\n\n".encode()


def request(**more):
    return {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Count."}], **more}


CUT = Reply(pieces=[chunk("[1, 2")], end="dropped")
HELD = Reply(pieces=[chunk("[1, 2")], end="held")
REST = Reply(pieces=[chunk("[1, 2, 3]") + chunk(None, "stop") + b"data: [DONE]\n\n"])


def text_of(body):
    events = [event.removeprefix("data: ") for event in body.decode().split("\n\n")]
    chunks = [json.loads(event) for event in events if event.startswith("{")]
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk.get("choices", []))


def test_the_key_and_the_headers_go_with_each_call(serve):
    server = serve(CUT, REST)
    headers = {"authorization": "Bearer key", "x-own": "1", "idempotency-key": "once", "content-digest": "x"}
    with whole.Client(headers=headers) as client:
        client.post(server.url + PATH + "?api-version=1", json=request())
    (first, one, _), (path, two, body) = server.requests
    assert first == path == PATH + "?api-version=1"
    assert one["authorization"] == two["authorization"] == "Bearer key"
    assert one["x-own"] == two["x-own"] == "1"
    assert one["accept-encoding"] == two["accept-encoding"] == "identity"
    # The upstream would replay the first answer.
    assert "idempotency-key" in one
    assert "idempotency-key" not in two
    assert "content-digest" not in two
    assert int(two["content-length"]) == len(body)


def test_other_requests_pass_unchanged(serve):
    plain = Reply(content_type="text/plain", pieces=[b"cut"], headers=("x-a: b",))
    server = serve(plain, plain, plain)
    with whole.Client() as client:
        assert client.get(server.url + "/v1/models").text == "cut"
        response = client.post(server.url + "/v1/embeddings", json={"input": "a"})
        assert (response.text, response.headers["x-a"]) == ("cut", "b")
        assert client.post(server.url + PATH, content=iter([b"{}"])).text == "cut"
    assert "identity" not in server.requests[1][1].get("accept-encoding", "")


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_an_error_of_the_first_call_passes(serve, status):
    server = serve(Reply(status, "application/json", [b'{"error":{"message":"no"}}'], headers=("retry-after: 1",)))
    with whole.Client() as client:
        response = client.post(server.url + PATH, json=request())
    assert (response.status_code, response.json(), response.headers["retry-after"]) == (
        status,
        {"error": {"message": "no"}},
        "1",
    )


def test_an_sdk_should_not_retry_a_body_that_failed(serve):
    message = {"role": "assistant", "content": "[1, 2"}
    body = {"id": "a", "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    server = serve(
        Reply(content_type="application/json", pieces=[json.dumps(body).encode()]),
        Reply(400, "application/json", [b'{"error":{"message":"no"}}']),
    )
    with whole.Client(on_give_up="error", max_continuations=1) as client:
        response = client.post(server.url + PATH, json=request(stream=False))
    assert (response.status_code, response.headers["x-should-retry"]) == (502, "false")


def test_a_compressed_answer_passes_unread(serve):
    import gzip

    server = serve(Reply(pieces=[gzip.compress(chunk("[1, 2"))], headers=("content-encoding: gzip",)))
    with whole.Client() as client:
        assert text_of(client.post(server.url + PATH, json=request()).content) == "[1, 2"


def test_a_client_that_leaves_closes_the_upstream(serve):
    server, events = serve(HELD), []
    with whole.Client(on_event=events.append) as client:
        with client.stream("POST", server.url + PATH, json=request()) as response:
            next(response.iter_bytes())
        assert server.closed.wait(5)
    assert [(event["event"], event.get("stop")) for event in events] == [("done", "abandoned")]


def test_a_client_that_leaves_during_the_rest_closes_the_upstream(serve):
    server = serve(CUT, Reply(pieces=[chunk("[1, 2, 3")], end="held"))
    with whole.Client() as client:
        with client.stream("POST", server.url + PATH, json=request()) as response:
            for part in response.iter_bytes():
                if b", 3" in part:
                    break
        assert server.closed.wait(5)
    assert len(server.requests) == 2


@pytest.mark.parametrize("is_stream", [True, False])
def test_cancelling_a_task_closes_the_upstream(serve, is_stream):
    body = b'{"id":"a","choices":[' if not is_stream else chunk("[1, 2")
    server = serve(
        Reply(content_type="text/event-stream" if is_stream else "application/json", pieces=[body], end="held")
    )
    events = []

    async def run():
        async with whole.AsyncClient(on_event=events.append) as client:

            async def read():
                url = server.url + PATH
                async with client.stream("POST", url, json=request(stream=is_stream)) as response:
                    async for _ in response.aiter_bytes():
                        pass

            task = asyncio.create_task(read())
            while not server.requests:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.closed.wait, 5)

    asyncio.run(run())
    assert [event.get("stop") for event in events] == ["abandoned"]


def test_cancelling_while_it_waits_makes_no_further_call(serve):
    busy = Reply(503, "application/json", [b"{}"], headers=("retry-after: 5",))
    server = serve(CUT, busy, REST)

    async def run():
        async with whole.AsyncClient() as client:
            task = asyncio.create_task(client.post(server.url + PATH, json=request()))
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    started = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - started < 4
    assert len(server.requests) == 2


def test_threads_share_a_client(serve):
    answers = 12

    def reply(received):
        return REST if b"overlap_context" in received[2] else CUT

    server = serve(*[reply] * (2 * answers))
    with whole.Client() as client, concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(client.post, server.url + PATH, json=request()) for _ in range(answers)]
        assert {text_of(call.result().content) for call in calls} == {"[1, 2, 3]"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_was_forked_uses_the_client(serve):
    server = serve(CUT, REST, CUT, REST)
    with whole.Client() as client:
        assert text_of(client.post(server.url + PATH, json=request()).content) == "[1, 2, 3]"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                text = text_of(client.post(server.url + PATH, json=request()).content)
                status = 0 if text == "[1, 2, 3]" else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_connection_serves_again_after_an_answer():
    """The limit on the reads of an answer must not stay on a connection that is kept."""
    ports = set()

    class Kept(threading.Thread):
        def __init__(self):
            super().__init__(daemon=True)
            import socket

            self.socket = socket.create_server(("127.0.0.1", 0))

        def run(self):
            connection, address = self.socket.accept()
            with connection, connection.makefile("rb") as received:
                for _ in range(2):
                    while (line := received.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                    received.read(length)
                    ports.add(address[1])
                    body = REST.pieces[0]
                    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(
                        body
                    )
                    connection.sendall(head + body)

    server = Kept()
    server.start()
    with whole.Client(idle_timeout=5) as client:
        for _ in range(2):
            response = client.post(f"http://127.0.0.1:{server.socket.getsockname()[1]}{PATH}", json=request())
            assert text_of(response.content) == "[1, 2, 3]"
    assert len(ports) == 1
    server.socket.close()


def test_the_error_of_a_lost_answer_is_not_that_of_the_last_call(serve):
    """A refused connection would say that nothing was delivered."""
    server, calls = serve(CUT), []

    class Inner(httpx2.HTTPTransport):
        def handle_request(self, request):
            calls.append(request)
            if len(calls) > 1:
                raise httpx2.ConnectError("refused")
            return super().handle_request(request)

    transport = whole.Transport(Inner(), max_total_time=0.5)
    with httpx2.Client(transport=transport) as client, pytest.raises(httpx2.RemoteProtocolError) as raised:
        client.post(server.url + PATH, json=request())
    assert isinstance(raised.value.__cause__, httpx2.ConnectError)
    assert len(calls) > 1


def test_an_event_is_each_step_of_the_loop(serve):
    server, events = serve(CUT, REST), []
    with whole.Client(on_event=events.append) as client:
        client.post(server.url + PATH, json=request())
    assert [event["event"] for event in events] == ["cut", "requested", "joined", "done"]
    assert (events[2]["path"], events[3]["status"]) == ("/1", "complete")


def test_the_report_comes_before_the_last_bytes(serve):
    """A client that stops at `[DONE]` has it."""
    server, events = serve(CUT, REST), []
    with whole.Client(on_event=events.append) as client:
        with client.stream("POST", server.url + PATH, json=request()) as response:
            for part in response.iter_bytes():
                if b"[DONE]" in part:
                    assert events[-1]["status"] == "complete"
                    break
    assert [event["event"] for event in events].count("done") == 1


def test_an_error_of_the_callback_does_not_break_the_answer(serve, caplog):
    def fail(event):
        raise RuntimeError("callback")

    server = serve(CUT, REST)
    with caplog.at_level(logging.ERROR, "restitch"), whole.Client(on_event=fail) as client:
        assert text_of(client.post(server.url + PATH, json=request()).content) == "[1, 2, 3]"
    assert "on_event failed" in caplog.text


@pytest.mark.parametrize("wrong", [{"on_give_up": "retry"}, {"repair": "all"}, {"prose": "x"}, {"idle_timeout": -1}])
def test_a_wrong_setting_is_an_error_at_once(wrong):
    with pytest.raises(ValueError):
        whole.Client(**wrong)
    with pytest.raises(ValueError):
        whole.AsyncTransport(**wrong)


def test_an_unknown_setting_is_an_error_at_once():
    with pytest.raises(TypeError):
        whole.Transport(retries=3)


def test_a_proxy_of_the_environment_is_used(serve, monkeypatch):
    server = serve(CUT, REST)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with whole.Client() as client:
        response = client.post("http://model.example" + PATH, json=request())
    assert text_of(response.content) == "[1, 2, 3]"
    assert {path for path, _, _ in server.requests} == {"http://model.example" + PATH}


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_model_that_thinks_is_not_silent(serve, is_stream):
    """Before the first text of an answer a longer time limit counts."""
    pieces = REST.pieces
    if not is_stream:
        message = {"role": "assistant", "content": "[1, 2, 3]"}
        body = {"id": "a", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        pieces = [json.dumps(body).encode()]
    content_type = "text/event-stream" if is_stream else "application/json"
    server = serve(Reply(content_type=content_type, pieces=pieces, delay=0.6))
    with whole.Client(idle_timeout=0.3, first_byte_timeout=10) as client:
        response = client.post(server.url + PATH, json=request(stream=is_stream))
    assert len(server.requests) == 1
    assert b"[1, 2, 3]" in response.content
