"""Wished lengths from the command's options to traces and back: files, pipes, blocks, sweeps, ensembles, score."""

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.core.format import Format
from indigo_cli.core.units import unit_table
from indigo_cli.data.collate import collate
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.engine import generate as generate_module
from indigo_cli.engine.generate import generate
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.length_wish import LengthOption, length_option
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.loaded_run import load_ensemble, load_run
from indigo_cli.engine.outputs import read_output
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.score import score
from indigo_cli.engine.sweep import sweep
from indigo_cli.errors import DataError, IndigoError, RunError, UsageError
from tests.engine.test_generate import piped
from tests.ranks import on_ranks
from tests.runs import multiply_weights
from tests.tiny import Tiny

LENGTH = ("model.system=transformer", "order.name=l2r", "model.positions=ldpe+pe", "train.validate_decode=4")
LSTM = ("model.system=lstm", "order.name=l2r", "model.length_control=lenemb", "model.decoder_layers=1")
LINES = ["ant bee cat dog", "", "lærk koi", "gnu hen ibis jay koi", "ant"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is told lengths in characters, and sure of itself."""
    folder = tmp_path_factory.mktemp("length") / "run"
    tiny.train(folder, *LENGTH)
    multiply_weights(folder, 3.0)
    return folder


Decode = Callable[..., list[TraceRecord]]


@pytest.fixture
def decode(run: Path, tmp_path: Path) -> Decode:
    def decode(*args: Any, lines: list[str] | None = None, of: Path = run, **options: Any) -> list[TraceRecord]:
        source = tmp_path / "in.txt"
        source.write_text("".join(f"{line}\n" for line in lines or LINES), encoding="utf-8")
        out = tmp_path / "out.traces.jsonl"
        named = {} if "split" in options else {"source": str(source)}
        generate(
            of,
            **{**named, "form": Format.jsonl, "output": str(out), "overwrite": True, **options},
            length=length_option(*args),
        )
        return list(read_traces(out)[1])

    return decode


def wishes(records: list[TraceRecord]) -> dict[int, int | None]:
    return {record.id: record.wish for record in records}


def write(path: Path, *lines: object) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_every_way_of_asking(decode: Decode, run: Path, tmp_path: Path) -> None:
    lengths = {i: len(line) for i, line in enumerate(LINES) if line}
    assert wishes(decode("11")) == {0: 11, 1: None, 2: 11, 3: 11, 4: 11}
    assert wishes(decode("source")) == {1: None, **lengths}
    assert wishes(decode("", "", 0.5)) == {1: None, 0: 8, 2: 4, 3: 10, 4: 2}  # 7.5 and 1.5 to even, as Python rounds
    asked = write(tmp_path / "lengths", 3, 1, 4, 15, 9)
    assert wishes(decode("", asked)) == {0: 3, 1: None, 2: 4, 3: 15, 4: 9}
    header, _ = read_traces(tmp_path / "out.traces.jsonl")
    assert header["length_unit"] == "character"
    output = read_output(str(tmp_path / "out.traces.jsonl"))
    assert output.wishes is not None and output.wishes.unit == "character"
    assert list(output.wishes.lengths) == [3, None, 4, 15, 9]


def test_without_a_wish_the_ratio_of_training_is_taken_and_said(
    decode: Decode, run: Path, tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    """The toy task reverses, so that the ratio is 1; computed here from the texts of the corpus."""
    corpus = Corpus.open(tiny.corpus)
    split, codecs = corpus.split("train"), corpus.codecs
    target, source = (
        sum(len(codec.text_of_ids(side[i].tolist())) for i in range(len(split)))
        for codec, side in ((codecs.target, split.target), (codecs.source, split.source))
    )
    fact = json.loads((run / "run.json").read_text())["length_ratio"]
    assert fact == {"unit": "character", "ratio": pytest.approx(target / source)}
    assert wishes(decode()) == {1: None, **{i: len(line) for i, line in enumerate(LINES) if line}}
    told = [line for line in capsys.readouterr().err.splitlines() if "no length is asked for" in line]
    assert len(told) == 1 and "1 times the characters" in told[0]
    decode("7")
    assert "no length" not in capsys.readouterr().err


def test_wishes_reach_the_model(decode: Decode) -> None:
    """What they do there, tests/models/test_length.py learns."""
    short, long = ([record.log_prob for record in decode(wish) if record.tokens] for wish in ("2", "40"))
    assert all(one != pytest.approx(other, abs=1e-3) for one, other in zip(short, long, strict=True))


@pytest.mark.parametrize("batch_tokens", [1, 13])
def test_neither_batch_nor_pipe_nor_split_changes_a_byte(
    run: Path, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_tokens: int
) -> None:
    """Rows of one batch have wishes of their own."""
    source = tmp_path / "test.txt"
    source.write_bytes((tiny.recipe_path.parent / "test.src").read_bytes())
    asked = write(tmp_path / "lengths", *range(4, 4 + len(source.read_text(encoding="utf-8").splitlines())))
    texts, option = [], length_option("", asked)
    kinds: dict[str, dict[str, Any]] = {
        "file": {"source": str(source)},
        "small": {"source": str(source), "overrides": [f"decode.batch_tokens={batch_tokens}"]},
        "split": {"split": "test"},
        "pipe": {"source": "-"},
    }
    for name, options in kinds.items():
        out = tmp_path / name
        with piped(monkeypatch, source.read_bytes()):
            generate(run, output=str(out), length=option, **options)
        texts.append(out.read_text(encoding="utf-8"))
    assert len(set(texts)) == 1


@pytest.mark.slow
def test_several_processes_write_the_bytes_of_one(
    run: Path, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate_module, "block_size", lambda n_best: 4)
    source = str(tiny.recipe_path.parent / "train.src")
    asked = length_option("", write(tmp_path / "lengths", *(3 + number % 20 for number in range(60))))
    decode = partial(generate, run, source=source, form=Format.jsonl, length=asked, runtime=Runtime(threads=1))
    decode(output=str(tmp_path / "one.jsonl"))
    on_ranks(2, partial(decode, output=str(tmp_path / "two.jsonl")))
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert {record.wish for record in read_traces(tmp_path / "one.jsonl")[1]} == set(range(3, 23))


def test_a_resumed_decoding_is_the_same_and_needs_the_same_wishes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the third of five blocks; any other way to ask is refused then, also if it comes to the same."""
    monkeypatch.setattr(generate_module, "block_size", lambda n_best: 1)
    source, lengths = write(tmp_path / "in", *LINES), [3, 1, 4, 15, 9]
    asked, whole, out = length_option("", write(tmp_path / "lengths", *lengths)), tmp_path / "whole", tmp_path / "out"
    resume = partial(generate, run, source=source, output=str(out), form=Format.jsonl, resume=True)
    generate(run, source=source, output=str(whole), form=Format.jsonl, length=asked)
    decode, searched = Generator.decode, list[int]()

    def failing(generator: Generator, block: Sequence[EncodedLine]) -> Any:
        if block[0].number == 2 and not searched:
            raise RunError("power cut")
        searched.extend(line.number for line in block if out.with_name("out.parts").exists() and line.number > 1)
        return decode(generator, block)

    monkeypatch.setattr(Generator, "decode", failing)
    with pytest.raises(RunError):
        resume(length=asked)
    other = length_option("", write(tmp_path / "other", *lengths[:-1], 10))
    for refused in (other, None, length_option("3"), length_option("source"), length_option("", "", 2.0)):
        with pytest.raises(UsageError, match="--length"):
            resume(length=refused)
    searched.append(-1)
    resume(length=asked)
    assert searched == [-1, 2, 3, 4] and out.read_bytes() == whole.read_bytes()


def test_contract_2_score_of_traces_gives_their_log_probs(decode: Decode, run: Path, tmp_path: Path) -> None:
    """Under their own wishes; under that of their own length, other numbers."""
    records = decode("", write(tmp_path / "lengths", 3, 1, 4, 15, 9), n_best=3)
    traces, source = tmp_path / "out.traces.jsonl", tmp_path / "in.txt"
    score(run, source=str(source), target=str(traces), output=str(tmp_path / "scored.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()[1:]]
    found = {(row["id"], row["rank"]): row["log_probs"][0] for row in rows}
    for record in records:
        if record.tokens:
            assert found[record.id, record.rank] == pytest.approx(record.log_prob, rel=1e-5, abs=1e-4)
    plain = tmp_path / "plain.traces.jsonl"
    lines = [json.loads(line) for line in traces.read_text(encoding="utf-8").splitlines()]
    plain.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "wish"}) + "\n" for row in lines))
    score(run, source=str(source), target=str(plain), output=str(tmp_path / "own.jsonl"))
    own = [json.loads(line)["log_probs"][0] for line in (tmp_path / "own.jsonl").read_text().splitlines()[1:]]
    assert own != pytest.approx([row["log_probs"][0] for row in rows], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("search", ["beam", "joint"])
def test_contract_2_for_words_in_any_order(decode: Decode, tiny: Tiny, tmp_path: Path, search: str) -> None:
    """InDIGO in random orders, each line with a wish of its own."""
    run = tmp_path / "run"
    tiny.train(run, "model.length_control=ldpe", "model.length_unit=byte")
    multiply_weights(run, 2.0)
    asked = write(tmp_path / "lengths", 3, 1, 4, 15, 9)
    records = decode("", asked, of=run, n_best=2, overrides=[f"decode.search={search}"])
    assert wishes(records) == {0: 3, 1: None, 2: 4, 3: 15, 4: 9}
    traces = tmp_path / "out.traces.jsonl"
    score(run, source=str(tmp_path / "in.txt"), target=str(traces), output=str(tmp_path / "scored.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()[1:]]
    found = {(row["id"], row["rank"]): row["log_probs"][0] for row in rows}
    for record in records:
        if record.tokens:
            assert found[record.id, record.rank] == pytest.approx(record.log_prob, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("system", ["transformer", "indigo", "lstm"])
def test_targets_without_a_wish_have_their_own_length_whatever_their_neighbours_wish(
    run: Path, tiny: Tiny, decode: Decode, tmp_path: Path, system: str
) -> None:
    """In one batch, with the numbers that each has in a file of its kind."""
    if system != "transformer":
        run = tmp_path / "run"
        order = {"indigo": ("order.name=rnd", "model.length_control=ldpe"), "lstm": LSTM}[system]
        tiny.train(run, *order)
        multiply_weights(run, 2.0)
    decode("", write(tmp_path / "lengths", 3, 1, 4, 15, 9), of=run)
    header, *rows = (tmp_path / "out.traces.jsonl").read_text(encoding="utf-8").splitlines()
    told = [{**json.loads(row), "wish": 30} for row in rows]
    bare = [{key: value for key, value in row.items() if key != "wish"} for row in told]
    scores: dict[str, list[float]] = {}
    for name, kept in {"told": told, "bare": bare, "mixed": [*told[:3], *bare[3:]]}.items():
        traces = tmp_path / f"{name}.traces.jsonl"
        traces.write_text("\n".join([header, *map(json.dumps, kept)]) + "\n", encoding="utf-8")
        score(run, source=str(tmp_path / "in.txt"), target=str(traces), output=str(tmp_path / name))
        scored = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()[1:]]
        scores[name] = [row["log_probs"][0] for row in scored if row["orders"] != [[]]]
    count = sum(bool(row["tokens"]) for row in told[:3])
    assert scores["mixed"] == pytest.approx(scores["told"][:count] + scores["bare"][count:], abs=1e-4, rel=1e-5)
    assert scores["bare"][count:] != pytest.approx(scores["told"][count:], abs=1e-3)


def test_score_of_a_split_takes_the_lengths_of_the_targets(run: Path, tiny: Tiny, tmp_path: Path) -> None:
    """As training does: the same numbers from targets whose wishes are written out."""
    score(run, split="test", output=str(tmp_path / "split.jsonl"))
    loaded = load_run(run, device=CPU)
    split, table = Corpus.open(tiny.corpus).split("test"), unit_table(loaded.codecs.target, "character")
    rows = [json.loads(line) for line in (tmp_path / "split.jsonl").read_text().splitlines()[1:]]
    assert len(rows) == len(split)
    for i, row in enumerate(rows):
        target = split.target[i].tolist()
        batch = collate(["x"], [split.source[i]], [target], [[range(len(target))]], wishes=[table.count(target)])
        with torch.inference_mode():
            assert row["log_probs"][0] == pytest.approx(float(loaded.system.log_probs(batch).words.sum()), rel=1e-4)


def test_traces_with_wishes_in_another_unit_are_refused(decode: Decode, run: Path, tmp_path: Path) -> None:
    decode("5")
    traces = tmp_path / "out.traces.jsonl"
    traces.write_text(traces.read_text(encoding="utf-8").replace('"length_unit": "character"', '"length_unit": "byte"'))
    with pytest.raises(DataError, match=r"another unit \(byte\) than the run \(character\)"):
        score(run, source=str(tmp_path / "in.txt"), target=str(traces), output=str(tmp_path / "scored.jsonl"))


def test_a_sweep_and_an_ensemble_take_wishes(run: Path, tiny: Tiny, decode: Decode, tmp_path: Path) -> None:
    told = [
        sweep(
            run, ["decode.beam_size=1,2"], split="valid", length=length_option(length), output=str(tmp_path / length)
        ).scored
        for length in ("2", "30")
    ]
    first, second = ([one.scores for one in scored] for scored in told)
    assert first != second
    with pytest.raises(DataError, match="has 9 lines, the source has 8"):
        asked = write(tmp_path / "lengths", *range(1, 10))
        sweep(run, ["decode.beam_size=1,2"], split="valid", length=length_option("", asked))
    twins = decode("", "", 1.5, ensemble=[run])
    assert [record.text for record in twins] == [record.text for record in decode("", "", 1.5)]
    plain = tmp_path / "plain"
    tiny.train(plain, *LENGTH[:2])
    mixed = load_ensemble([plain, run], device=CPU)
    assert mixed.length_unit == "character"
    assert wishes(decode("6", of=plain, ensemble=[run]))[0] == 6
    tokens = tmp_path / "tokens"
    tiny.train(tokens, *LENGTH, "model.length_unit=token")
    with pytest.raises(UsageError, match="different units: character and token"):
        load_ensemble([run, tokens], device=CPU)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("5", "f"), "--length and --length-file say how long"),
        (("source", "", 2.0), "--length and --length-ratio say how long"),
        (("0",), "a length cannot be"),
        (("-3",), "a length cannot be"),
        (("1.5",), "a length cannot be"),
        (("", "", 0.0), "no length is 0.0 times"),
        (("", "", float("nan")), "no length is nan times"),
        (("", "-"), "not read from standard input"),
    ],
)
def test_options_that_say_no_length(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        length_option(*args)
    assert caught.value.where and caught.value.fix


def test_a_unit_that_the_run_did_not_learn_is_refused(decode: Decode) -> None:
    for args in ((), ("5",)):
        with pytest.raises(UsageError, match="'character', not 'byte'") as caught:
            decode(*args, overrides=["model.length_unit=byte"])
        assert caught.value.where == "model.length_unit"


def test_a_run_that_learnt_no_lengths_refuses_them(tiny: Tiny, decode: Decode) -> None:
    with pytest.raises(UsageError, match="has not learnt to follow a length") as caught:
        decode("5", of=tiny.run)
    assert caught.value.where == "--length" and "ldpe" in str(caught.value.fix)
    assert all(record.wish is None for record in decode(of=tiny.run))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 3, 4], "no line 5, but the source has"),
        ([1, 2, 3, 4, 5, 6], "has 6 lines, the source has 5"),
        ([1, 2, "x", 4, 5], "a length cannot be"),
        ([1, 2, "", 4, 5], "a length cannot be"),
        ([1, 2, 0, 4, 5], "a length cannot be"),
    ],
)
def test_a_file_of_lengths_that_does_not_belong(
    decode: Decode, tmp_path: Path, lengths: list[object], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        decode("", write(tmp_path / "lengths", *lengths))
    assert "lengths" in str(caught.value.where)


def test_a_run_without_its_ratio_asks_for_a_length(decode: Decode, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    facts = json.loads((copy / "run.json").read_text())
    del facts["length_ratio"]
    (copy / "run.json").write_text(json.dumps(facts))
    with pytest.raises(IndigoError, match="does not say how long its targets were"):
        decode(of=copy)
    assert wishes(decode("4", of=copy))[0] == 4


def test_options() -> None:
    assert length_option() is None
    assert length_option("12") == LengthOption(fixed=12)
    assert length_option("source") == LengthOption(ratio=1.0)
    assert length_option("", "f") == LengthOption(file="f")
    assert length_option("", "", 0.3) == LengthOption(ratio=0.3)


def test_a_resumed_run_knows_its_ratio(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of train is not read again for it."""
    tiny.train(tmp_path / "run", *LENGTH, "train.max_steps=1")
    fact = json.loads((tmp_path / "run/run.json").read_text())["length_ratio"]
    monkeypatch.setattr("indigo_cli.engine.length_wish.training_ratio", lambda *_: pytest.fail("counted again"))
    assert tiny.train(tmp_path / "run", *LENGTH, "train.max_steps=2", resume=True).step == 2
    assert json.loads((tmp_path / "run/run.json").read_text())["length_ratio"] == fact
