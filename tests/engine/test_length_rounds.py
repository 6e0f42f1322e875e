"""Wishes for systems that fill many slots at once: what is written costs what `score` says, also beside given words."""

import json
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.engine.length_wish import length_option
from tests.runs import multiply_weights
from tests.scoring import Score, decoded, near, tolerance
from tests.tiny import Tiny

KINDS = {
    "fractional": ("model.length_control=ldpe",),
    "ternary": ("model.length_control=lrpe", "model.positions=ternary", "model.length_unit=byte"),
    "absolute": ("model.length_control=ldpe", "model.positions=absolute"),
    "sequence": ("model.length_control=ldpe", "model.positions=absolute", "model.termination=sequence"),
}
LINES = ["ant bee cat dog", "", "lark koi", "gnu hen ibis jay koi", "ant", "bee koi"]
LENGTHS = [3, 1, 4, 15, 9, 26]
CANVASES = ["", "koi", "koi [gap]", "[gap] ibis [gap] gnu", "ant", ""]
WORDS = "decode.close_penalty=4"
"""Untrained, all slots would be closed."""


class Runs(dict[str, Path]):
    """Trains a run of a kind when it is asked for first."""

    def __init__(self, tiny: Tiny, folder: Path) -> None:
        super().__init__()
        self.tiny, self.folder = tiny, folder

    def __missing__(self, kind: str) -> Path:
        self[kind] = self.folder / kind
        self.tiny.train(self[kind], "model.system=insertion", "order.name=blt", *KINDS[kind])
        multiply_weights(self[kind], 2.0)
        return self[kind]


@pytest.fixture(scope="module")
def runs(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tiny, tmp_path_factory.mktemp("length"))


def write(path: Path, lines: list[Any]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def decode(run: Path, folder: Path, *overrides: str, lengths: list[int] | None = None, **options: Any) -> Any:
    """Return the path of traces, and these."""
    source, asked = write(folder / "source", LINES), write(folder / "lengths", lengths or LENGTHS)
    return decoded(run, folder, *overrides, source=source, length=length_option("", asked), **options)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("fractional", "decode.beam_size=3"),
        ("ternary", "decode.beam_size=1"),
        ("absolute", "decode.beam_size=3"),
        ("absolute", "decode.serial=true"),
        ("sequence", "decode.beam_size=3"),
    ],
)
def test_contract_2(runs: Runs, scored: Score, tmp_path: Path, kind: str, how: str) -> None:
    serial = kind == "sequence" or how == "decode.serial=true"
    settings = (how,) if kind == "sequence" else (how, WORDS)
    path, records = decode(runs[kind], tmp_path, *settings, n_best=2)
    assert {record.id: record.wish for record in records} == {i: LENGTHS[i] if LINES[i] else None for i in range(6)}
    assert sum(len(record.tokens) for record in records) > 4
    how_made = ("decode.serial=true",) if serial and kind != "sequence" else ()
    compare(records, scored(runs[kind], *how_made, source=str(tmp_path / "source"), target=path))
    other = decode(runs[kind], tmp_path, *settings, n_best=2, lengths=[60] * 6)[1]
    assert [record.log_prob for record in other] != near([record.log_prob for record in records], abs=1e-3)


@pytest.mark.parametrize("kind", ["fractional", "absolute"])
def test_given_words_are_part_of_what_is_wished(runs: Runs, scored: Score, tmp_path: Path, kind: str) -> None:
    """Scored with the wish of each line; without one, as if their own weight had been wished."""
    canvas = write(tmp_path / "canvas", CANVASES)
    path, records = decode(runs[kind], tmp_path, WORDS, canvas=canvas, n_best=2)
    assert any(len(record.tokens) > record.given > 0 for record in records)
    source = str(tmp_path / "source")
    compare(records, scored(runs[kind], source=source, target=path))
    header, *lines = map(json.loads, Path(path).read_text("utf-8").splitlines())
    found = {}
    for name in ("bare", "own"):  # a text of these words weighs what it measures
        told = [line | {"wish": len(line["text"])} if name == "own" else without(line, "wish") for line in lines]
        target = write(tmp_path / f"{name}.traces.jsonl", [json.dumps(line) for line in (header, *told)])
        found[name] = [row.log_probs[0] for row in scored(runs[kind], source=source, target=target) if row.log_probs]
    assert found["bare"] == near(found["own"])
    told = [record.log_prob for record in records]
    assert len(found["bare"]) == len(told) and found["bare"] != near(told, abs=1e-2)


def without(line: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != key}


def compare(records: list[TraceRecord], rows: Any) -> None:
    found = {(row.id, row.rank): row for row in rows}
    for record in records:
        row = found[record.id, record.rank]
        if LINES[record.id]:
            assert row.log_probs is not None
            assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))


def test_an_ensemble_shares_the_wish(runs: Runs, tmp_path: Path) -> None:
    """Twins are one; with a run that learnt no lengths it is told them too."""

    def log_probs(run: Path, **options: Any) -> list[float]:
        records = decode(run, tmp_path, WORDS, n_best=2, **options)[1]
        assert any(record.tokens for record in records)
        return [record.log_prob for record in records]

    learnt = runs["fractional"]
    assert log_probs(learnt, ensemble=[learnt]) == near(log_probs(learnt))
    plain = tmp_path / "plain"
    runs.tiny.train(plain, "model.system=insertion", "order.name=blt")
    short, long = (log_probs(plain, ensemble=[learnt], lengths=[length] * 6) for length in (4, 60))
    assert short != long  # the same numbers, if nobody had told them
