"""Partial values against other packages: `python race.py [KIB]`.

Each reads the same document in deltas of four bytes, and has the value after each of them, then a document that is one
string, 16 times as large. Packages that read the text from its beginning each time need time by the square of its size.
Then each reads the first half of a document of 1 MiB once.
"""

import importlib
import json
import sys
import time

SIZE = 4


def document(kib):
    rows, text = [], ""
    while len(text) < kib << 10:
        number = len(rows)
        rows.append(
            {
                "id": number,
                "name": f"Row {number}",
                "tags": ["a", "b"],
                "text": "The river rose slowly. " * 4,
                "share": number / 7,
            }
        )
        if number % 16 == 0:
            text = json.dumps({"rows": rows})
    return json.dumps({"rows": rows})


def restitch(deltas):
    live = importlib.import_module("restitch").LiveValue()
    for delta in deltas:
        value = live.feed(delta)
    return value


def by_prefix(read):
    def run(deltas):
        text = ""
        for delta in deltas:
            text += delta
            value = read(text)
        return value

    return run


def peers():
    yield "restitch.LiveValue", lambda: restitch
    yield (
        "restitch.loads, from the beginning each time",
        lambda: by_prefix(lambda text: importlib.import_module("restitch").loads(text, partial=True)),
    )
    yield (
        "jiter, trailing-strings",
        lambda: by_prefix(
            lambda text, read=importlib.import_module("jiter").from_json: read(
                text.encode(), partial_mode="trailing-strings"
            )
        ),
    )
    yield "partial-json-parser", lambda: by_prefix(importlib.import_module("partial_json_parser").loads)
    yield "json_repair", lambda: by_prefix(importlib.import_module("json_repair").loads)


def main():
    kib = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    stream(document(kib))
    stream(json.dumps({"text": "The river rose slowly. " * (kib * 16 * 1024 // 23)}))

    text = document(1024)
    half = text[: len(text) // 2]
    print(f"the first {len(half)} bytes of {len(text)}, once")
    for name, load in peers():
        try:
            run = load()
        except ImportError:
            continue
        started = time.perf_counter()
        run([half])
        print(f"{name}: {time.perf_counter() - started:.3f} s")


def stream(text):
    """Prints the times of reading a text in deltas."""
    deltas = [text[at : at + SIZE] for at in range(0, len(text), SIZE)]
    print(f"{len(text)} bytes in {len(deltas)} deltas")
    for name, load in peers():
        try:
            run = load()
        except ImportError as error:
            print(f"{name}: skipped: {error}")
            continue
        value, done, seconds = timed(run, deltas, MOST)
        end = f"right: {value == json.loads(text)}" if done == len(deltas) else f"stopped after {done} deltas"
        print(f"{name}: {seconds:.3f} s, {seconds / done * 1e6:.1f} us a delta, {end}")


def timed(run, deltas, most):
    """Times a run over all deltas, or over an eighth of them if all would take longer than `most` seconds."""
    few = deltas[: len(deltas) // 8]
    started = time.perf_counter()
    value = run(few)
    seconds = time.perf_counter() - started
    # The time of a whole run is up to the square of this share.
    if seconds * 64 > most:
        return value, len(few), seconds
    started = time.perf_counter()
    value = run(deltas)
    return value, len(deltas), time.perf_counter() - started


MOST = 60.0


if __name__ == "__main__":
    main()
