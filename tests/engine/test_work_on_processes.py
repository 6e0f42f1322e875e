"""`decode` and `score` on several processes write the bytes of one (CONTRACT number 3)."""

from functools import partial
from pathlib import Path

import pytest

from indigo_cli.core.format import Format
from indigo_cli.engine import generate as generate_module
from indigo_cli.engine import score as score_module
from indigo_cli.engine.generate import generate
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.score import score
from indigo_cli.errors import DataError, PeerError, UsageError
from tests.ranks import on_ranks
from tests.tiny import Tiny

ONE_THREAD = Runtime(threads=1)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that every process gets some, and the last round leaves one without."""
    monkeypatch.setattr(generate_module, "block_size", lambda n_best: 4)
    monkeypatch.setattr(score_module, "BLOCK_LINES", 4)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
class TestSameBytes:
    @pytest.mark.parametrize("split", [True, False])
    def test_decode(self, tiny: Tiny, tmp_path: Path, split: bool) -> None:
        decode = partial(generate, tiny.run, form=Format.jsonl, n_best=2, runtime=ONE_THREAD)
        file = str(tiny.recipe_path.parent / "train.src")
        decode = partial(decode, split="train") if split else partial(decode, source=file)
        one = decode(output=str(tmp_path / "one.jsonl"))
        summaries = on_ranks(3, partial(decode, output=str(tmp_path / "three.jsonl")))
        assert (tmp_path / "three.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
        assert summaries[0] == one and one.lines == 60

    def test_score(self, tiny: Tiny, tmp_path: Path) -> None:
        scored = partial(score, tiny.run, split="train", draws=2, runtime=ONE_THREAD)
        one = scored(output=str(tmp_path / "one.jsonl"))
        summaries = on_ranks(3, partial(scored, output=str(tmp_path / "three.jsonl")))
        assert (tmp_path / "three.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
        assert getattr(summaries[0], "text", str)() == one.text()

    def test_a_bad_line_leaves_no_output(self, tiny: Tiny, tmp_path: Path) -> None:
        (tmp_path / "bad").write_bytes(b"ant bee\n" * 9 + b"\xff\n")
        decode = partial(generate, tiny.run, source=str(tmp_path / "bad"), output=str(tmp_path / "out"))
        answers = on_ranks(2, partial(decode, runtime=ONE_THREAD))
        assert [type(answer) for answer in answers] == [DataError, PeerError]
        assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_standard_input_is_not_shared(tiny: Tiny) -> None:
    for answer in on_ranks(2, partial(generate, tiny.run, runtime=ONE_THREAD)):
        assert isinstance(answer, UsageError) and "standard input" in answer.what
