"""Decoding text: N lines in, N lines out, the same whatever the batches, and log-probabilities that are the model's."""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.core.format import Format
from indigo_cli.core.vocab import UNK
from indigo_cli.data.collate import collate
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.engine import generator as module
from indigo_cli.engine import lines as lines_module
from indigo_cli.engine.generate import GenerateSummary, generate
from indigo_cli.engine.lines import LineCount
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import CheckpointError, UsageError
from indigo_cli.recipe import load_recipe
from tests.tiny import MAX_LENGTH, SIZES, WORDS, Tiny, write_task

pytestmark = pytest.mark.slow

TEXT = ["bee", "", "ant cat dog", "hen hen", "  \u3000 ", "jay koi lærk gnu fox eel cat", "unheard of", "owl"]


class Decoder:
    """Decodes lines with a run and returns what was written."""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder, self.run, self.count = folder, run, 0

    def __call__(self, lines: Sequence[str], *overrides: str, **options: Any) -> str:
        self.count += 1
        source, output = self.folder / f"{self.count}.in", self.folder / f"{self.count}.out"
        source.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
        options = {"source": str(source), "output": str(output), "run": self.run, **options}
        generate(options.pop("run"), overrides=overrides, **options)
        return output.read_bytes().decode("utf-8")

    def traces(self, lines: Sequence[str], *overrides: str, **options: Any) -> list[TraceRecord]:
        """Decode into a traces file and read it back, checked."""
        self(lines, *overrides, form=Format.jsonl, **options)
        return list(read_traces(self.folder / f"{self.count}.out")[1])


@pytest.fixture
def decode(tiny: Tiny, tmp_path: Path) -> Decoder:
    """Decodes with the trained run."""
    (tmp_path / "decoded").mkdir()
    return Decoder(tmp_path / "decoded", tiny.run)


@pytest.fixture(scope="module")
def transformer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the baseline on the same corpus."""
    run = tmp_path_factory.mktemp("transformer") / "run"
    tiny.train(run, "model.system=transformer", "order.name=l2r", "train.max_steps=80", "train.validate_every=80")
    return run


def test_as_many_lines_out_as_in_and_blank_ones_stay_blank(decode: Decoder) -> None:
    lines = decode(TEXT).split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(TEXT)
    for source, target in zip(TEXT, lines, strict=True):
        assert bool(target.strip()) <= bool(source.strip())
    assert sum(bool(line) for line in lines) >= 4
    assert set(" ".join(lines).split()) <= {*WORDS, "<unk>"}
    assert decode([]) == ""


SEARCHES = {
    "greedy": ["decode.beam_size=1"],
    "beam": ["decode.beam_size=4"],
    "joint": ["decode.search=joint", "decode.beam_size=4"],
    "sample": ["decode.search=sample", "decode.top_p=0.9"],
}


@contextmanager
def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> Iterator[None]:
    """Make standard input a pipe that holds this and ends, read line by line."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    with open(reader, encoding="ascii") as stream, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", stream)
        patch.setattr(lines_module._Arriving, "more", lambda self: False)
        yield


@pytest.mark.parametrize("system", ["indigo", "transformer"])
@pytest.mark.parametrize(
    "search", ["beam", *(pytest.param(name, marks=pytest.mark.slow) for name in SEARCHES if name != "beam")]
)
def test_case_85_neither_batch_nor_block_nor_pipe_changes_a_byte(
    decode: Decoder,
    tiny: Tiny,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    search: str,
    system: str,
) -> None:
    """A line keeps its number everywhere, since that is the key of its draws."""
    decode.run = tiny.run if system == "indigo" else request.getfixturevalue("transformer")
    options = SEARCHES[search]
    text = decode(TEXT, *options)
    for budget in (1, 30):
        assert decode(TEXT, *options, f"decode.batch_tokens={budget}") == text
    for line in (2, 5):
        alone = text.splitlines()[line]
        assert decode(["" for _ in range(line)] + [TEXT[line]], *options) == "\n" * line + f"{alone}\n"
    content = "".join(f"{line}\n" for line in TEXT).removesuffix("\n").encode("utf-8")
    with piped(monkeypatch, content):
        assert decode([], *options, source="-") == text
    monkeypatch.setattr(module, "BLOCK_LINES", 3)
    assert decode(TEXT, *options) == text


@pytest.mark.parametrize("search", ["beam", "joint", "sample"])
def test_lists_are_the_same_from_a_file_and_from_a_pipe(
    decode: Decoder, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    """All but the last digits of scores, where sums are made in another order."""
    options = [*SEARCHES[search], "decode.beam_size=2"]
    file = decode.traces(TEXT, *options, n_best=3)
    with piped(monkeypatch, "".join(f"{line}\n" for line in TEXT).encode("utf-8")):
        pipe = decode.traces([], *options, n_best=3, source="-")
    assert same(file, pipe) == len(file) == 2 + 6 * 3


def same(first: Sequence[TraceRecord], second: Sequence[TraceRecord]) -> int:
    """Check that two files hold the same traces and return their number."""
    for a, b in zip(first, second, strict=True):
        assert (a.id, a.rank, a.tokens, a.order, a.finished) == (b.id, b.rank, b.tokens, b.order, b.finished)
        assert a.score == pytest.approx(b.score, abs=1e-4)
        assert a.word_log_probs == pytest.approx(b.word_log_probs, abs=1e-4)
        assert a.slot_log_probs == pytest.approx(b.slot_log_probs, abs=1e-4)
    return len(first)


@pytest.mark.parametrize("search", ["beam", "joint", "sample"])
def test_batches_change_no_trace(decode: Decoder, search: str) -> None:
    together = decode.traces(TEXT, *SEARCHES[search], n_best=4)
    alone = decode.traces(TEXT, *SEARCHES[search], "decode.batch_tokens=1", n_best=4)
    assert same(together, alone) > len(TEXT)


def test_case_47_an_over_long_line_is_cut_and_named(decode: Decoder, capsys: pytest.CaptureFixture[str]) -> None:
    long = [WORDS[i % 5] for i in range(10_000)]
    text = decode(["bee cat", " ".join(long), "dog"])
    assert text == decode(["bee cat", " ".join(long[:MAX_LENGTH]), "dog"])
    assert len(text.splitlines()) == 3
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert warnings == ["warning: 1 line was longer than preprocess.max_length and cut: line 2"]


MEGABYTE = 1 << 20
HOSTILE = {
    "a word of a megabyte": ("ant" * (MEGABYTE // 3), "cut unknown"),
    "a line of a megabyte": ("ant bee " * (MEGABYTE // 8), "cut"),
    "blanks for a megabyte": (" " * MEGABYTE, ""),
    "a word behind a megabyte of blanks": (" " * MEGABYTE + "ant", ""),
    "control characters": ("\x00\x01\x02\x7f", "unknown"),
    "control characters that are white space": ("\x0b\x0c\x1c\x1d\r\x85\u2028", ""),
    "a NUL among words": ("ant \x00 bee", ""),
    "a NUL in a word": ("an\x00t", "unknown"),
    "no known word": ("zzz yyy", "unknown"),
    "accents without end": ("e" + "\u0301\u0323" * 300_000, "cut unknown"),
    "the end of a file on old machines": ("\x1a", "unknown"),
    "outside of the first plane": ("\U0001f600\U0010ffff", "unknown"),
}


def test_a_hostile_line_gives_one_line_and_is_counted(decode: Decoder, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line, _ in HOSTILE.values()]
    answers = decode(lines, "decode.beam_size=1", "decode.max_length=2").split("\n")
    assert answers.pop() == "" and len(answers) == len(lines)
    warnings = {line for line in capsys.readouterr().err.splitlines() if "steps" not in line}
    assert warnings == {
        f"warning: 3 lines were longer than preprocess.max_length and cut: line {numbers('cut')}",
        f"warning: 7 lines were without any known word: line {numbers('unknown')}",
    }
    assert decode([" " * MEGABYTE + "ant"]) == decode(["ant"])


def numbers(kind: str) -> str:
    """The first five hostile lines of a kind, from 1."""
    found = [str(number) for number, (_, kinds) in enumerate(HOSTILE.values(), start=1) if kind in kinds]
    return ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")


def test_a_summary_does_not_grow_with_the_number_of_lines() -> None:
    count = LineCount()
    for line in range(10, 1_000_010):
        count.add(line)
    assert count.first == [10, 11, 12, 13, 14]
    assert count.text("odd") == "1,000,000 lines were odd: line 11, 12, 13, 14, 15, ..."
    one = LineCount()
    one.add(6)
    assert one.text("odd") == "1 line was odd: line 7"
    assert GenerateSummary().warnings() == []


def test_text_can_never_be_a_special_symbol(decode: Decoder, tiny: Tiny) -> None:
    special = "<s> ant <pad> <unk> </s> bee <eod> @@ <bos>"
    codecs = load_run(tiny.run, device=torch.device("cpu")).codecs
    ids = codecs.encode_source(special)
    assert [ids[0], ids[2], *ids[3:5], *ids[6:]] == [UNK] * 7
    assert UNK not in (ids[1], ids[5])
    assert decode([special]) == decode(["zzz ant zzz zzz zzz bee zzz zzz zzz"])


def score(tiny: Tiny, run: Path, record: TraceRecord, source: str) -> tuple[float, float, float]:
    """Teacher-force a trace: word and position log-probability of its target under its order, and their number."""
    loaded = load_run(run, device=torch.device("cpu"))
    assert record.ids is not None
    ids = loaded.codecs.encode_source(source)
    batch = collate(["x", "y"], [ids, [7] * 9], [record.ids, [7] * 11], [[record.order], [range(11)]])
    both = loaded.system(batch).parts
    other = loaded.system(collate(["y"], [[7] * 9], [[7] * 11], [[range(11)]])).parts
    parts = {name: (float(nats - other[name][0]), count - other[name][1]) for name, (nats, count) in both.items()}
    return -parts["word"][0], -parts.get("position", (0.0, 0))[0], parts["word"][1]


@pytest.mark.parametrize("system", ["indigo", "transformer"])
def test_contract_2_log_probs_are_those_of_the_model(
    tiny: Tiny, decode: Decoder, request: pytest.FixtureRequest, system: str
) -> None:
    """What cached beam search adds up is what the training entry says of the same target and order."""
    run = tiny.run if system == "indigo" else request.getfixturevalue("transformer")
    finished = [r for r in decode.traces(TEXT, "decode.merge_strings=false", n_best=4, run=run) if r.finished]
    assert len(finished) >= 10
    with torch.no_grad():
        for record in finished:
            assert record.end_log_prob is not None
            word, position, count = score(tiny, run, record, TEXT[record.id])
            tolerance = max(1e-4, 1e-5 * abs(record.log_prob))
            assert count == len(record.tokens) + 1
            assert sum(record.word_log_probs) + record.end_log_prob == pytest.approx(word, abs=tolerance)
            assert sum(record.slot_log_probs) == pytest.approx(position, abs=tolerance)
            assert record.log_prob == pytest.approx(word + position, abs=tolerance)
    in_order = [record.order == tuple(range(len(record.order))) for record in finished]
    assert all(in_order) == (system == "transformer")


def test_traces_are_what_the_text_is_made_of(decode: Decoder, tiny: Tiny) -> None:
    records = decode.traces(TEXT, n_best=3)
    ranks: dict[int, list[TraceRecord]] = {}
    for record in records:
        ranks.setdefault(record.id, []).append(record)
    assert list(ranks) == list(range(len(TEXT)))
    codec = load_run(tiny.run, device=torch.device("cpu")).codecs.target
    for found in ranks.values():
        assert [record.rank for record in found] == list(range(1, len(found) + 1))
        assert len({record.text for record in found}) == len(found) <= 3
        keys = [(record.finished, record.score) for record in found]
        assert keys == sorted(keys, reverse=True)
    for record in records:
        trace = record.trace()
        assert trace.log_prob == pytest.approx(record.log_prob, abs=1e-6)
        assert trace.tokens() == list(record.ids or ())
        assert codec.text_of_ids(trace.tokens()) == record.text
        assert record.rounds == tuple(range(len(record.order)))
        if TEXT[record.id].strip():
            merged = record.merged_log_prob
            assert merged is not None and merged >= record.log_prob - 1e-9
            assert record.score == pytest.approx(merged / (len(record.tokens) + 1), rel=1e-6)
    for best, found in zip(decode.traces(TEXT), ranks.values(), strict=True):
        assert found[0].score >= best.score - 1e-6  # the wider search for a list may find better ones


def test_tsv_has_id_rank_score_and_text(decode: Decoder) -> None:
    rows = [line.split("\t") for line in decode(TEXT, form=Format.tsv, n_best=3).splitlines()]
    records = decode.traces(TEXT, n_best=3)
    assert [(int(row[0]), int(row[1]), row[3]) for row in rows] == [(r.id, r.rank, r.text) for r in records]
    assert [float(row[2]) for row in rows] == pytest.approx([r.score for r in records], rel=1e-5, abs=1e-5)


def test_a_line_that_runs_out_of_steps_is_given_and_counted(
    decode: Decoder, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["ant bee cat dog eel fox", "", "gnu hen ibis jay koi"]
    for limit in ("decode.max_length=1", "decode.max_length_ratio=0.1"):
        records = decode.traces(lines, limit, "decode.beam_size=1")
        assert [len(record.tokens) for record in records] == [1, 0, 1]
        assert not any(record.finished for record in records)
        assert all(record.end_log_prob is None for record in records)
        assert "warning: 2 lines were out of steps" in (err := capsys.readouterr().err)
        assert err.strip().endswith("line 1, 3")


@pytest.mark.parametrize("form", list(Format))
def test_a_split_is_its_lines_as_text(decode: Decoder, tiny: Tiny, form: Format) -> None:
    lines = (tiny.recipe_path.parent / "test.src").read_text("utf-8").splitlines()
    assert decode([], split="test", form=form) == decode(lines, form=form)


def test_a_line_of_a_split_that_was_dropped_is_empty(tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    pairs = [(tmp_path / f"train.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")]
    for lines in pairs:
        lines[3] = lines[-1] = "ant " * (MAX_LENGTH + 1)
    for side, lines in zip(("src", "tgt"), pairs, strict=True):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    prepare(load_recipe(recipe), tmp_path / "corpus")
    tiny = Tiny(recipe, tmp_path / "corpus", tmp_path / "run")
    tiny.train(tiny.run, "train.max_steps=3")
    decode = Decoder(tmp_path, tiny.run)
    text = decode([], split="train").splitlines()
    assert len(text) == SIZES["train"]
    assert text[3] == text[-1] == ""
    kept = [i for i in range(SIZES["train"]) if i not in (3, SIZES["train"] - 1)]
    assert [text[i] for i in kept] == decode([pairs[0][i] for i in kept]).splitlines()
    ids = [json.loads(row)["id"] for row in decode([], split="train", form=Format.jsonl).splitlines()[1:]]
    assert ids == kept


def test_only_the_corpus_of_the_run_will_do(decode: Decoder, tiny: Tiny, tmp_path: Path) -> None:
    write_task(tmp_path, seed=2)
    prepare(load_recipe(tmp_path / "recipe.toml"), tmp_path / "corpus")
    with pytest.raises(UsageError, match="not the one that the run was trained on"):
        decode([], split="test", corpus_folder=tmp_path / "corpus")
    moved = Path(shutil.copytree(tiny.corpus, tmp_path / "moved"))
    assert decode([], split="test", corpus_folder=moved) == decode([], split="test")
    with pytest.raises(UsageError, match="no split 'tset'"):
        decode([], split="tset")


def test_a_checkpoint_can_be_named(decode: Decoder, tiny: Tiny) -> None:
    decode(["bee"], form=Format.jsonl, checkpoint="step-00000060")
    header, _ = read_traces(decode.folder / f"{decode.count}.out")
    assert header["checkpoint"] == "step-00000060"
    assert decode(TEXT, form=Format.jsonl, checkpoint="step-00000060") != decode(TEXT, form=Format.jsonl)
    with pytest.raises(CheckpointError, match="'step-7'"):
        decode(["bee"], checkpoint="step-7")


@pytest.mark.parametrize(
    ("n_best", "form"), [(0, Format.tsv), (1001, Format.tsv), (-1, Format.jsonl), (2, Format.text)]
)
def test_n_best_has_limits(decode: Decoder, n_best: int, form: Format) -> None:
    with pytest.raises(UsageError) as caught:
        decode(["bee"], form=form, n_best=n_best)
    assert caught.value.where == "--n-best"
    assert not (decode.folder / f"{decode.count}.out").exists()


def test_an_output_that_stands_is_kept(decode: Decoder, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("mine\n", "utf-8")
    generate_into: Callable[..., str] = lambda **options: decode(["bee"], output=str(path), **options)  # noqa: E731
    with pytest.raises(UsageError, match="exists"):
        generate_into()
    assert path.read_text("utf-8") == "mine\n"


def test_bf16_decodes_too(decode: Decoder) -> None:
    from indigo_cli.engine.runtime import Runtime

    fp32, bf16 = decode.traces(TEXT), decode.traces(TEXT, runtime=Runtime("cpu", "bf16"))
    assert len(fp32) == len(bf16)
    assert all(math.isfinite(record.log_prob) for record in bf16)
    same = sum(a.tokens == b.tokens for a, b in zip(fp32, bf16, strict=True))
    assert same >= len(fp32) / 2
