"""Decoding text: N lines in, N lines out, the same whatever the batches, and log-probabilities that are the model's."""

import io
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from indigo_cli.core.format import Format
from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.core.vocab import UNK
from indigo_cli.data.collate import collate
from indigo_cli.data.traces_file import TraceRecord, read_traces
from indigo_cli.engine import generate as module
from indigo_cli.engine import lines as lines_module
from indigo_cli.engine.generate import Output, generate, merge_strings
from indigo_cli.engine.loaded_run import load_run
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import CheckpointError, UsageError
from indigo_cli.recipe import load_recipe
from tests.tiny import MAX_LENGTH, SIZES, WORDS, Tiny, write_task

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


def test_case_85_neither_batch_nor_block_nor_pipe_changes_a_byte(
    decode: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for beam in (1, 4):
        text = decode(TEXT, f"decode.beam_size={beam}")
        for budget in (1, 7 * beam, 20 * beam):
            assert decode(TEXT, f"decode.beam_size={beam}", f"decode.batch_tokens={budget}") == text
        for line, alone in enumerate(text.splitlines()):
            assert decode([TEXT[line]], f"decode.beam_size={beam}") == f"{alone}\n"
        content = "".join(f"{line}\n" for line in TEXT).removesuffix("\n").encode("utf-8")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
        assert decode([], f"decode.beam_size={beam}", source="-") == text
        for patched in (module, lines_module):
            monkeypatch.setattr(patched, "BLOCK_LINES", 3)
        assert decode(TEXT, f"decode.beam_size={beam}") == text
        monkeypatch.undo()


def test_batches_change_no_trace(decode: Decoder) -> None:
    together = decode.traces(TEXT, n_best=4)
    alone = decode.traces(TEXT, "decode.batch_tokens=1", n_best=4)
    assert len(together) == len(alone) > len(TEXT)
    for a, b in zip(together, alone, strict=True):
        assert (a.id, a.rank, a.tokens, a.order, a.finished) == (b.id, b.rank, b.tokens, b.order, b.finished)
        assert a.log_prob == pytest.approx(b.log_prob, abs=1e-4)
        assert a.word_log_probs == pytest.approx(b.word_log_probs, abs=1e-4)


def test_case_47_an_over_long_line_is_cut_and_named(decode: Decoder, capsys: pytest.CaptureFixture[str]) -> None:
    long = [WORDS[i % 5] for i in range(10_000)]
    text = decode(["bee cat", " ".join(long), "dog"])
    assert text == decode(["bee cat", " ".join(long[:MAX_LENGTH]), "dog"])
    assert len(text.splitlines()) == 3
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert warnings == ["warning: 1 line was longer than preprocess.max_length and cut: line 2"]


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
        assert len({(record.text, record.finished) for record in found}) == len(found) <= 3
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
    assert decode(TEXT).splitlines() == [found[0].text for found in ranks.values()]


def test_tsv_has_id_rank_score_and_text(decode: Decoder) -> None:
    rows = [line.split("\t") for line in decode(TEXT, form=Format.tsv, n_best=3).splitlines()]
    records = decode.traces(TEXT, n_best=3)
    assert [(int(row[0]), int(row[1]), row[3]) for row in rows] == [(r.id, r.rank, r.text) for r in records]
    assert [float(row[2]) for row in rows] == pytest.approx([r.score for r in records], rel=1e-5, abs=1e-5)


def test_merged_strings_add_the_probabilities_of_all_traces_found(decode: Decoder) -> None:
    """The whole beam, merged by hand."""
    alpha = 0.7
    options = ("decode.beam_size=6", f"decode.length_penalty={alpha}")
    plain = decode.traces(TEXT, *options, "decode.merge_strings=false", n_best=6)
    merged = decode.traces(TEXT, *options, n_best=6)
    groups: dict[tuple[int, str, bool], list[TraceRecord]] = {}
    for record in plain:
        assert record.merged_log_prob is None
        if TEXT[record.id].strip():
            assert record.score == pytest.approx(record.log_prob / (len(record.tokens) + 1) ** alpha, rel=1e-5)
            groups.setdefault((record.id, record.text, record.finished), []).append(record)
    assert any(len(group) > 1 for group in groups.values())
    found = {(r.id, r.text, r.finished): r for r in merged if TEXT[r.id].strip()}
    assert found.keys() == groups.keys()
    for key, group in groups.items():
        best = max(group, key=lambda record: record.log_prob)
        assert (found[key].order, found[key].log_prob) == (best.order, best.log_prob)
        together = math.log(sum(math.exp(record.log_prob) for record in group))
        assert found[key].merged_log_prob == pytest.approx(together, abs=1e-6)
        assert found[key].score == pytest.approx(together / (len(best.tokens) + 1) ** alpha, abs=1e-6)


def output(text: str, tokens: Sequence[int], log_prob: float, *, finished: bool = True) -> Output:
    """A hypothesis whose whole probability lies on its last prediction."""
    insertions = tuple(Insertion(token, at, at, 0.0, 0.0) for at, token in enumerate(tokens))
    trace = GenerationTrace(insertions, end_log_prob=log_prob)
    return Output(Hypothesis(trace, score=log_prob, finished=finished), text)


def test_two_segmentations_of_one_string_win_together() -> None:
    """`ab c` as `ab c` and as `a@@ b c`: 0.2 + 0.3 > 0.4."""
    two, three = output("ab c", [5, 6], math.log(0.3)), output("ab c", [7, 8, 6], math.log(0.2))
    other = output("d", [9], math.log(0.4))
    first, second = merge_strings([other, two, three], 0.0)
    assert (first.text, second.text) == ("ab c", "d")
    assert first.hypothesis.trace is two.hypothesis.trace
    assert first.hypothesis.merged_log_prob == pytest.approx(math.log(0.5))
    assert second.hypothesis.merged_log_prob == pytest.approx(math.log(0.4))
    assert first.hypothesis.score == pytest.approx(math.log(0.5))
    assert merge_strings([other, two, three], 1.0)[0].hypothesis.score == pytest.approx(math.log(0.5) / 3)


def test_what_ran_out_of_steps_is_not_merged_and_comes_last() -> None:
    cut = output("ab c", [5, 6], math.log(0.9), finished=False)
    merged = merge_strings([cut, output("ab c", [5, 6], math.log(0.01))], 1.0)
    assert [o.hypothesis.finished for o in merged] == [True, False]
    assert [o.hypothesis.merged_log_prob for o in merged] == pytest.approx([math.log(0.01), math.log(0.9)])


def test_tiny_probabilities_can_be_added() -> None:
    (merged,) = merge_strings([output("a", [5], -2000.0), output("a", [6], -2000.0)], 1.0)
    assert merged.hypothesis.merged_log_prob == pytest.approx(-2000 + math.log(2))


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


@pytest.mark.parametrize(("n_best", "form"), [(0, Format.tsv), (5, Format.tsv), (-1, Format.jsonl), (2, Format.text)])
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
