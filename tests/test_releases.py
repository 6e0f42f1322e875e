"""Files of every release so far load, go on and give what they gave; `tests/fixtures/make.py` wrote them."""

import gzip
import json
import shutil
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
import torch

from indigo_cli.data.corpus import Corpus
from indigo_cli.data.orders_file import read_order_rows, read_orders
from indigo_cli.data.traces_file import read_traces
from indigo_cli.engine.fit import train
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.recipe import load_recipe
from tests.conftest import Indigo
from tests.runs import same, state_of, training_rows

FIXTURES = Path(__file__).resolve().parent / "fixtures"
RELEASES = sorted(FIXTURES.glob("release-*"))
CPU = torch.device("cpu")


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest) -> Path:
    """The folder of a release; tests must not change it."""
    folder: Path = request.param
    return folder


@pytest.fixture
def copy(release: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy that a test may change."""
    yield shutil.copytree(release, tmp_path / release.name, symlinks=True)


def test_there_is_a_release() -> None:
    assert RELEASES


def test_the_corpora_load(release: Path) -> None:
    for name in ("corpus", "corpus-two-vocabularies", "corpus-word-ordering"):
        corpus = Corpus.open(release / name)
        assert corpus.splits == ["train", "valid", "test"]
        test = corpus.split("test")
        raw = (release / "test.tgt").read_text("utf-8").splitlines()
        lines = [line.lower() for line in raw] if name == "corpus-two-vocabularies" else raw
        assert [corpus.codecs.target.encode(line) for line in raw] == [test.target[i].tolist() for i in range(6)]
        if name != "corpus-word-ordering":  # a word that training never saw there is <unk>
            assert [corpus.codecs.target.text_of_ids(test.target[i].tolist()) for i in range(6)] == lines
    assert len(Corpus.open(release / "corpus").split("train")) == 118


def test_the_run_decodes_to_the_stored_text(release: Path, indigo: Indigo) -> None:
    for name, options in (("test.txt", []), ("average.txt", ["--checkpoint", "average-last-2"])):
        done = indigo("decode", release / "run", "--input", release / "test.src", "--device", "cpu", *options)
        assert (done.status, done.out) == (0, (release / name).read_text("utf-8"))


def test_the_run_scores_to_the_stored_log_probs(release: Path, tmp_path: Path, indigo: Indigo) -> None:
    given = ["--input", str(release / "test.src"), "--target", str(release / "test.traces.jsonl")]
    assert not indigo("score", release / "run", *given, "-o", tmp_path / "new", "--device", "cpu").status
    orders = [
        "--split",
        "valid",
        "--corpus",
        str(release / "corpus"),
        "--orders",
        str(release / "valid.cf.orders.jsonl.gz"),
    ]
    assert not indigo("score", release / "run", *orders, "-o", tmp_path / "valid", "--device", "cpu").status
    stored = {"new": "test.scores.orders.jsonl", "valid": "valid.scores.orders.jsonl"}
    for new, old in stored.items():
        for found, wanted in zip_longest(read_order_rows(tmp_path / new)[1], read_order_rows(release / old)[1]):
            assert (found.id, found.rank, found.orders) == (wanted.id, wanted.rank, wanted.orders)
            assert found.log_probs == pytest.approx(wanted.log_probs, abs=1e-4, rel=1e-5)
    scores = [row.log_probs for row in read_order_rows(release / stored["new"])[1]]
    traces = [(record.log_prob,) for record in read_traces(release / "test.traces.jsonl")[1]]
    assert len(traces) == 12 and scores == [pytest.approx(log_prob, abs=1e-4, rel=1e-5) for log_prob in traces]


@pytest.mark.slow
def test_the_run_goes_on(copy: Path) -> None:
    """Two more updates from the stored weights, moments and random state; twice the same."""
    recipe = load_recipe(copy / "run" / "recipe.toml", ["train.max_steps=802", "train.log_every=1"])
    again = shutil.copytree(copy / "run", copy / "again", symlinks=True)
    before = state_of(copy / "run")
    for run in (copy / "run", again):
        assert train(recipe, output=run, corpus_folder=copy / "corpus", resume=True).step == 802
    assert [row["step"] for row in training_rows(copy / "run")][-3:] == [800, 801, 802]
    assert same(state_of(copy / "run"), state_of(again)) and not same(state_of(copy / "run"), before)


def test_another_run_starts_from_it(copy: Path) -> None:
    recipe = load_recipe(copy / "run" / "recipe.toml", ["train.max_steps=1", "train.warmup_steps=100000"])
    train(recipe, output=copy / "other", corpus_folder=copy / "corpus", init=copy / "run")
    started, ended = load_run(copy / "run", device=CPU), load_run(copy / "other", device=CPU)
    for old, new in zip(started.system.state_dict().values(), ended.system.state_dict().values(), strict=True):
        assert torch.allclose(old, new, atol=1e-5)


def test_the_orders_files_load(release: Path) -> None:
    corpus = Corpus.open(release / "corpus")
    for name in ("train.odd.orders.jsonl", "valid.cf.orders.jsonl.gz"):
        split = corpus.split(name.split(".")[0])
        found = read_orders(
            release / name, ids=split.lines, lengths=split.target.lengths, split=split.name, corpus=corpus.digest
        )
        assert len(found.flat) == len(split.target.ids) and found.header["order"] == name.split(".")[1]
        assert np.array_equal(np.sort(found.flat[: split.target.lengths[0]]), np.arange(split.target.lengths[0]))


def test_its_output_is_evaluated_and_shown(release: Path, indigo: Indigo) -> None:
    reference = ["--reference", str(release / "test.tgt"), "--format", "json"]
    text, traces = (indigo("evaluate", release / name, *reference) for name in ("test.txt", "test.traces.jsonl"))
    assert text.status == traces.status == 0
    assert 0 < json.loads(text.out)["metrics"]["bleu"]["score"] == json.loads(traces.out)["metrics"]["bleu"]["score"]
    for name in ("test.traces.jsonl", "valid.scores.orders.jsonl", "valid.cf.orders.jsonl.gz"):
        assert indigo("show", release / name).status == 0


def newer(path: Path) -> None:
    """Raise the version that the first version field of a file names."""
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()).decode() if packed else path.read_text("utf-8")
    assert '"version": 1' in text
    changed = text.replace('"version": 1', '"version": 99', 1).encode()
    path.write_bytes(gzip.compress(changed) if packed else changed)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("corpus/manifest.json", "reorder corpus l2r --split test -o x"),
        ("run/run.json", "decode run --input test.src"),
        ("run/assets/codecs.json", "decode run --input test.src"),
        ("run/assets/vocabulary.json", "decode run --input test.src"),
        ("run/checkpoints/step-00000800/checkpoint.json", "decode run --checkpoint step-00000800 --input test.src"),
        ("valid.cf.orders.jsonl.gz", "show valid.cf.orders.jsonl.gz"),
        ("test.traces.jsonl", "show test.traces.jsonl"),
        ("test.traces.jsonl", "evaluate test.traces.jsonl --reference test.tgt"),
    ],
)
def test_files_of_a_newer_version_are_refused(
    copy: Path, indigo: Indigo, monkeypatch: pytest.MonkeyPatch, file: str, command: str
) -> None:
    monkeypatch.chdir(copy)
    newer(copy / file)
    done = indigo(*command.split())
    assert done.status == 2 and "version 99 is newer than this indigo reads" in done.err
    assert file in done.err and "hint: upgrade indigo" in done.err
