"""A traces file costs what its model said when it decoded, hypothesis by hypothesis, step by step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.vocab import FIRST_WORD
from indigo_cli.data.corpus import Corpus
from indigo_cli.errors import DataError, IndigoError
from tests.scoring import Score, decoded, near, steps_of, tolerance
from tests.tiny import Tiny

L2R = ("order.name=l2r",)


class TestTraces:
    @pytest.mark.parametrize("name", ["tiny", "transformer", "lstm", "scaled", "position_first"])
    @pytest.mark.slow
    def test_a_trained_model_scores_what_it_decoded(
        self, name: str, request: pytest.FixtureRequest, scored: Score, tmp_path: Path, tiny: Tiny
    ) -> None:
        """CONTRACT number 2: the whole, its parts, and every step; a low limit leaves some unfinished."""
        run = tiny.run if name == "tiny" else request.getfixturevalue(name)
        greedy = name == "position_first"
        options = ("decode.beam_size=1",) if greedy else ("decode.beam_size=6", "decode.max_length=3")
        path, records = decoded(run, tmp_path, *options, split="test", n_best=1 if greedy else 4)
        rows = scored(run, split="test", target=path)
        assert len(rows) == len(records) >= 6
        split = Corpus.open(tiny.corpus).split("test")
        for row, record in zip(rows, records, strict=True):
            assert (row.id, row.rank, row.orders) == (record.id, record.rank, (record.order,))
            assert row.log_probs is not None and row.parts is not None and row.bound == row.log_probs[0]
            assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))
            assert row.parts.words[0] == near(sum(record.word_log_probs), abs=2e-4)
            assert row.parts.slots[0] == near(sum(record.slot_log_probs), abs=2e-4)
            words, slots = steps_of(run, record, split.source[int(split.lines.searchsorted(record.id))].tolist())
            assert words[: len(record.ids or ())] == near(record.word_log_probs, abs=1e-4)
            assert slots == near(record.slot_log_probs, abs=1e-4)
            if record.finished:
                assert row.parts.ends[0] == near(record.end_log_prob, abs=1e-4)
                assert words[-1] == near(record.end_log_prob, abs=1e-4)
            else:
                assert row.parts.ends == (None,)
        if not greedy:
            assert {record.finished for record in records} == {True, False}
        assert scored.header["order"] == "traces" and "split" not in scored.header
        assert scored.summary.predictions == sum(len(r.order) + r.finished for r in records)

    def test_of_raw_text_the_sources_are_its_lines(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        """Blank lines, which the model never saw, cost nothing; unknown words and cut sources are as in decoding."""
        text = tmp_path / "in.txt"
        text.write_text("bee cat\n\n" + "dog " * 20 + "\nwhat ibis\n", "utf-8")
        path, records = decoded(tiny.run, tmp_path, source=str(text), n_best=2)
        rows = scored(tiny.run, source=str(text), target=path)
        assert [row.log_probs for row in rows] == [(near(r.log_prob, abs=1e-4),) for r in records]
        blank = next(row for row in rows if row.id == 1)
        assert (blank.orders, blank.log_probs) == (((),), (0.0,))
        assert scored.summary.cut.count == 2

    def test_given_words_cost_nothing(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        path, _ = decoded(tiny.run, tmp_path, split="test")
        lines = Path(path).read_text("utf-8").splitlines()
        row = json.loads(lines[1])
        assert len(row["ids"]) >= 2
        row["rounds"][0] = -1
        (tmp_path / "given.jsonl").write_text(f"{lines[0]}\n{json.dumps(row)}\n", "utf-8")
        (found,) = scored(tiny.run, split="test", target=str(tmp_path / "given.jsonl"))
        missing = row["word_log_probs"][0] + row["slot_log_probs"][0]
        assert found.log_probs == (near(row["log_prob"] - missing, abs=1e-4),)
        assert scored.summary.tokens == len(row["ids"]) - 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda h, r: h.update(vocabulary="0" * 64), "another vocabulary"),
            (lambda h, r: h.pop("vocabulary"), "another vocabulary"),
            (lambda h, r: h.update(version=2), "newer"),
            (lambda h, r: r.pop("ids"), "no vocabulary ids"),
            (lambda h, r: r.update(ids=[999] * len(r["ids"])), "not all words"),
            (lambda h, r: r.update(ids=[FIRST_WORD] * len(r["ids"])), "not all words"),
            (lambda h, r: r.update(id=77), "line 77 .from 0. is not a kept pair of split 'test'"),
            (lambda h, r: r.update(slots=[9] * len(r["ids"])), "same insertions"),
        ],
    )
    def test_foreign_or_damaged_ones_are_refused(
        self, tiny: Tiny, scored: Score, tmp_path: Path, change: Callable[..., Any], message: str
    ) -> None:
        path, _ = decoded(tiny.run, tmp_path, split="test")
        header, row, *_ = (json.loads(line) for line in Path(path).read_text("utf-8").splitlines())
        change(header, row)
        Path(path).write_text(f"{json.dumps(header)}\n{json.dumps(row)}\n", "utf-8")
        with pytest.raises(IndigoError, match=message) as caught:
            scored(tiny.run, split="test", target=path)
        assert caught.value.where.startswith(path) and caught.value.exit_code == 2
        assert not list(tmp_path.glob("*.scores.jsonl"))

    def test_ids_must_not_fall_where_the_sources_are_read_once(self, tiny: Tiny, scored: Score, tmp_path: Path) -> None:
        text = tiny.recipe_path.parent / "test.src"
        path, records = decoded(tiny.run, tmp_path, source=str(text))
        header, *rows = Path(path).read_text("utf-8").splitlines()
        Path(path).write_text("\n".join([header, *rows[::-1]]) + "\n", "utf-8")
        with pytest.raises(DataError, match="id 4 comes behind id 5"):
            scored(tiny.run, source=str(text), target=path)
        by_id = {row.id: row.log_probs for row in scored(tiny.run, split="test", target=path)}
        assert by_id == {record.id: (near(record.log_prob, abs=1e-4),) for record in records}
        text = tmp_path / "short.txt"
        text.write_text("bee\n", "utf-8")
        with pytest.raises(DataError, match="has no line 5"):
            scored(tiny.run, source=str(text), target=path)
