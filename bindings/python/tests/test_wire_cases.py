"""The wire cases, through a transport and a server on a loopback port."""

import asyncio
import importlib
import json
import socket
import time

import pytest
import wire_cases
from conftest import Reply

import restitch

CASES = wire_cases.all_cases()
PACKAGES = ["httpx2", "httpx"]


def test_there_are_enough_cases():
    assert len(CASES) >= 40


def replies(case):
    texts = iter(case.texts("upstream"))
    for call in case.calls():
        if call == "refused":
            yield None
            continue
        status, content_type, end = call.split(" ")
        pieces = [piece.encode() for piece in next(texts).split("----\n")]
        yield Reply(int(status), content_type, pieces, end)


class Refusing:
    """Replaces a transport's connections for the calls that a case refuses."""

    def __init__(self, case):
        self.answers = [reply is not None for reply in replies(case)]

    def port(self, server):
        if self.answers.pop(0) if self.answers else True:
            return server.port
        with socket.create_server(("127.0.0.1", 0)) as closed:
            return closed.getsockname()[1]


def check(case, server, status, body, end, events):
    asked = [body.decode() or f"GET {path}" for path, _, body in server.requests[1:]]
    patterns = case.texts("asked")
    # A call whose connection is refused reaches no server.
    refused = [at for at, call in enumerate(case.calls()[1:]) if call == "refused"]
    patterns = [pattern for at, pattern in enumerate(patterns) if at not in refused]
    wire_cases.assert_fits("asked", patterns, asked)
    text = body.decode().replace("\r\n", "\n")
    received = [event.partition("data: ")[2] for event in text.split("\n\n") if "data: " in event]
    if "x-ndjson" in case.calls()[0]:
        received = text.splitlines()
    is_stream = bool(received)
    wire_cases.assert_fits("client", case.texts("client")[0].split("\n"), received or [text])
    assert end == case.fact("end", "closed")
    if not is_stream:
        assert status == int(case.fact("status", "200"))
    reports = [event for event in events if event["event"] == "done"]
    assert len(reports) == 1
    wire_cases.assert_fits("report", case.texts("report"), [json.dumps(reports[0])])
    assert not server.replies, "a call was not made"


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sync(case, package, serve):
    http = pytest.importorskip(package)
    whole = importlib.import_module(f"restitch.{package}")
    server = serve(*filter(None, replies(case)))
    refusing, events = Refusing(case), []

    class Inner(http.HTTPTransport):
        def handle_request(self, request):
            request.url = request.url.copy_with(port=refusing.port(server))
            return super().handle_request(request)

    transport = whole.Transport(Inner(verify=False), on_event=events.append, **case.settings())
    with http.Client(transport=transport, timeout=20) as client:
        body, end = b"", "closed"
        with client.stream("POST", server.url + case.fact("path"), content=case.texts("request")[0]) as response:
            try:
                for part in response.iter_bytes():
                    body += part
            except http.TransportError:
                end = "dropped"
    check(case, server, response.status_code, body, end, events)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_async(case, package, serve):
    http = pytest.importorskip(package)
    whole = importlib.import_module(f"restitch.{package}")
    server = serve(*filter(None, replies(case)))
    refusing, events = Refusing(case), []

    class Inner(http.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            request.url = request.url.copy_with(port=refusing.port(server))
            return await super().handle_async_request(request)

    async def run():
        transport = whole.AsyncTransport(Inner(verify=False), on_event=events.append, **case.settings())
        async with http.AsyncClient(transport=transport, timeout=20) as client:
            body, end = b"", "closed"
            url, content = server.url + case.fact("path"), case.texts("request")[0]
            async with client.stream("POST", url, content=content) as response:
                try:
                    async for part in response.aiter_bytes():
                        body += part
                except http.TransportError:
                    end = "dropped"
            return response.status_code, body, end

    status, body, end = asyncio.run(run())
    check(case, server, status, body, end, events)


STREAMED = [case for case in CASES if "event-stream" in case.calls()[0] and "refused" not in case.calls()]


@pytest.mark.parametrize("case", STREAMED, ids=lambda case: case.name)
def test_a_client_that_leaves_after_any_event_ends_the_answer(case, serve):
    http = pytest.importorskip("httpx2")
    whole = importlib.import_module("restitch.httpx2")
    abandoned = 0
    for most in range(len(case.texts("client")[0].split("\n"))):
        server, events = serve(*replies(case)), []
        # The certificates of TLS would take most of the test's time.
        transport = whole.Transport(http.HTTPTransport(verify=False), on_event=events.append, **case.settings())
        with http.Client(transport=transport, timeout=20) as client:
            body, url, content = b"", server.url + case.fact("path"), case.texts("request")[0]
            with client.stream("POST", url, content=content) as response:
                for part in response.iter_bytes():
                    body += part
                    if body.count(b"data: ") > most:
                        break
        # An answer has one report, also if its client leaves.
        (report,) = [event for event in events if event["event"] == "done"]
        made = len(server.requests)
        if report.get("stop") == "abandoned":
            abandoned += 1
            assert report["status"] == "incomplete"
            time.sleep(0.01)
        else:
            wire_cases.assert_fits("report", case.texts("report"), [json.dumps(report)])
            assert made == len(case.calls())
        assert len(server.requests) == made, "nothing is asked for after the client has left"
    # A client can have a whole answer before its last event only if all events are of one call: they may arrive together.
    assert abandoned > 0 or len([text for text in case.texts("upstream") if text]) == 1


def test_a_pattern_can_fail():
    for pattern, value, fits in [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": None}, {}, False),
        ([1, {}], [1, {"a": 2}], True),
        ([1], [1, 2], False),
        ("a…c…", "abcd", True),
        ("…c", "abcd", False),
        ("ab…ba", "aba", False),
    ]:
        assert wire_cases.fits(pattern, value) == fits


def test_the_package_is_the_built_one():
    assert "site-packages" in restitch.__file__
