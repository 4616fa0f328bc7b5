"""Partial JSON: values, complete parts and repairs."""

import copy
import importlib.metadata
import json
import pickle
import subprocess
import sys
import threading
import time

import pytest

import restitch

DOCUMENT = {
    "title": "Tides\n\u20ac\U0001f600",
    "rows": [[1, 2.5, -3e4], {}, [], True, None, False],
    "n": 123456789012345678901,
}


@pytest.mark.parametrize("ascii", [True, False])
def test_a_whole_text_is_read_as_by_the_standard_library(ascii):
    text = json.dumps(DOCUMENT, ensure_ascii=ascii)
    for written in (text, text.encode(), bytearray(text.encode())):
        value = restitch.loads(written)
        assert value == DOCUMENT
        assert [type(number) for number in value["rows"][0]] == [int, float, float]


@pytest.mark.parametrize("text", ["1", '"a"', "true", "null", " [1] "])
def test_scalars_are_documents(text):
    assert restitch.loads(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": [1, 2, ', {"a": [1, 2]}),
        ('{"a": "tex', {"a": "tex"}),
        ('{"a": "tex\\u00', {"a": "tex"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": tr', {}),
        ('{"a', {}),
        ('{"a":', {}),
        ("[", []),
        ('["", "b"', ["", "b"]),
        ("Here it is:\n```json\n[1, 2", [1]),
    ],
)
def test_a_cut_text_is_read_up_to_the_cut(text, value):
    assert restitch.loads(text, partial=True) == value
    assert json.loads(restitch.complete(text)) == value
    with pytest.raises(restitch.JSONError) as raised:
        restitch.loads(text)
    assert raised.value.byte == len(text.encode())


def test_every_cut_is_a_part_of_the_whole():
    text = json.dumps(DOCUMENT)
    for cut in range(1, len(text)):
        value = restitch.loads(text[:cut], partial=True)
        assert json.loads(restitch.complete(text[:cut])) == value
        assert set(value) <= set(DOCUMENT)


def test_an_error_says_where():
    with pytest.raises(restitch.JSONError) as raised:
        restitch.loads('{"a": [1,\n  2, x]}')
    error = raised.value
    assert isinstance(error, ValueError)
    assert (error.byte, error.line, error.column, error.path) == (15, 2, 6, "/a/2")
    assert "line 2, column 6" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.byte, again.path) == (str(error), 15, "/a/2")


@pytest.mark.parametrize("text", ["", "  ", "Hello there.", "[See the docs]"])
@pytest.mark.parametrize("partial", [True, False])
def test_a_text_without_json_is_an_error(text, partial):
    with pytest.raises(restitch.JSONError, match="there is no JSON"):
        restitch.loads(text, partial=partial)


def test_a_sentence_that_begins_with_a_number_is_an_error():
    with pytest.raises(restitch.JSONError):
        restitch.loads("2026 was a good year.")


ROOTS = [
    ('[TOOL_CALLS] [{"name": "f"}]', [{"name": "f"}]),
    ('[INST] {"a": 1}', {"a": 1}),
    ('[Note]: {"a": [1]}', {"a": [1]}),
    ('Here it is:\n```json\n{"a": 1}\n```\nBye.', {"a": 1}),
]


@pytest.mark.parametrize(("text", "value"), [*ROOTS, ('The answer is {"a": 1}, I think.', {"a": 1}), ('[1] {"a": 1}', {"a": 1})])
def test_json_is_found_in_prose(text, value):
    assert restitch.loads(text) == value
    assert json.loads(restitch.complete(text)) == value


@pytest.mark.parametrize(("text", "value"), ROOTS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_live_value_is_the_root(text, value, size):
    live = restitch.LiveValue()
    for at in range(0, len(text), size):
        live.feed(text[at : at + size])
    assert (live.value, live.is_complete) == (value, True)


def test_a_live_value_forgets_a_bracket_of_prose():
    live = restitch.LiveValue()
    assert live.feed("[") == []
    assert live.feed("True, 1]") is None


def test_the_root_in_which_the_text_is_cut_is_read():
    text = '{"status": "ok"}\n{"rows": [{"id": 1}, {"id": 2'
    assert restitch.loads(text, partial=True) == {"rows": [{"id": 1}, {}]}
    with pytest.raises(restitch.JSONError):
        restitch.loads(text)


def test_a_text_that_is_not_utf8_is_an_error():
    with pytest.raises(ValueError, match="UTF-8"):
        restitch.loads(b"[\xff]")
    with pytest.raises(TypeError):
        restitch.loads(3)


def test_too_many_containers_are_an_error():
    with pytest.raises(restitch.JSONError, match="max_depth"):
        restitch.loads("[" * 100_000, partial=True)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_live_value_grows_in_place(size):
    text = json.dumps(DOCUMENT)
    live = restitch.LiveValue()
    assert live.value is None
    root = None
    for at in range(0, len(text), size):
        value = live.feed(text[at : at + size])
        root = root or value
        assert value is root
        assert value == restitch.loads(text[: at + size], partial=True)
    assert live.is_complete
    assert (live.value, live.text) == (DOCUMENT, text)


def test_a_live_value_may_leave_open_strings_out():
    live = restitch.LiveValue(strings=False)
    assert live.feed('{"a": "b", "c": "d') == {"a": "b"}
    assert live.path == "/c"
    assert live.feed('"') == {"a": "b", "c": "d"}


def test_a_live_value_reports_a_mistake_with_its_place():
    live = restitch.LiveValue()
    live.feed('{"a": [1,\n')
    with pytest.raises(restitch.JSONError) as raised:
        live.feed("x]}")
    assert (raised.value.byte, raised.value.line, raised.value.path) == (10, 2, "/a/1")
    assert live.value == {"a": [1]}


def test_the_last_of_equal_keys_counts():
    assert restitch.loads('{"a": 1, "a": [2]}') == {"a": [2]}


def test_mistakes_are_repaired():
    repaired = restitch.repair("{'a': [1, 2,], b: True}")
    assert json.loads(repaired.json) == {"a": [1, 2], "b": True}
    assert repaired.status == "repaired"
    assert {"rule", "level", "range", "original", "replacement", "path"} == set(repaired.repairs[0])
    assert str(repaired) == repaired.json
    assert restitch.repair('{"a": 1}').status == "valid"
    assert restitch.repair('{"a": 1').status == "truncated"
    assert restitch.repair("{'a': 1}", level="strict").status == "malformed"
    with pytest.raises(ValueError):
        restitch.repair("{}", level="all")


@pytest.mark.parametrize(
    "read", [restitch.loads, restitch.complete, restitch.repair, lambda text: restitch.LiveValue().feed(text)]
)
def test_a_thread_runs_while_another_one_reads_a_large_text(read):
    text = json.dumps([{"id": number, "text": "x" * 50} for number in range(20_000)])
    progress, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            progress[0] += 1
            # Releases the interpreter's lock.
            time.sleep(0)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    try:
        # A thread keeps the lock until it releases it itself, so the other one runs only if the reading does.
        sys.setswitchinterval(1000)
        thread.start()
        # The system may let the other thread wait for longer than a reading takes.
        for _ in range(50):
            before = progress[0]
            read(text)
            if progress[0] > before:
                break
        assert progress[0] > before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()


def test_a_live_value_can_be_fed_by_threads():
    live = restitch.LiveValue()
    live.feed("[")
    threads = [threading.Thread(target=lambda: [live.feed("1,") for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live.feed("1]") == [1] * 801


def test_a_state_can_be_kept_by_a_copy():
    live = restitch.LiveValue()
    kept = copy.deepcopy(live.feed("[1, "))
    live.feed("2]")
    assert (kept, live.value) == ([1], [1, 2])


def test_an_open_string_is_extended_in_place():
    live = restitch.LiveValue()
    live.feed('{"a": "')
    same, last = 0, None
    for _ in range(20_000):
        now = id(live.feed("text")["a"])
        same, last = same + (now == last), now
    # A larger string may need another place, but not for each delta.
    assert same > 10_000
    assert live.value == {"a": "text" * 20_000}


@pytest.mark.parametrize("start", ['{"a": ', "["])
def test_a_string_that_is_kept_does_not_change(start):
    live = restitch.LiveValue()
    place = "a" if start[0] == "{" else 0
    kept = live.feed(start + '"one')[place]
    assert live.feed(" two \u20ac")[place] == "one two \u20ac"
    assert kept == "one"


def test_the_import_loads_no_other_module():
    code = "import sys, importlib; names = set(sys.modules); import restitch; print(*set(sys.modules) - names)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} == {"restitch"}
    assert not importlib.metadata.requires("restitch-llm")
    with pytest.raises(AttributeError):
        restitch.nothing
