"""Decoding that was stopped goes on from its finished blocks; outputs for training data are training data."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.format import Format
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import read_lines
from indigo_cli.engine import generate as generate_module
from indigo_cli.engine.generate import GenerateSummary, generate
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.kept_blocks import KeptBlocks
from indigo_cli.engine.length_wish import LengthOption
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import DataError, RunError, UsageError
from tests.conftest import Indigo
from tests.kill import killed_at
from tests.tiny import MAX_LENGTH, SIZES, WORDS, Tiny

pytestmark = pytest.mark.slow
LINES = 12
"""Six blocks of two."""


class Work:
    """Decodes a text in blocks of two lines; counts the blocks that are searched, and may fail at one."""

    def __init__(self, tiny: Tiny, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.run, self.output, self.parts = tiny.run, folder / "out.txt", folder / "out.txt.parts"
        self.source = folder / "in.txt"
        words = [" ".join(WORDS[i : i + 1 + i % 4]) if i % 5 else "" for i in range(LINES)]
        self.source.write_text("".join(f"{line}\n" for line in words), "utf-8")
        self.searched: list[int] = []
        self.fails_at = -1
        patch.setattr(generate_module, "block_size", lambda n_best: 2)
        decode = Generator.decode

        def counting(generator: Generator, block: Sequence[EncodedLine]) -> Any:
            if block[0].number // 2 == self.fails_at:
                raise RunError("power cut")
            self.searched.append(block[0].number // 2)
            return decode(generator, block)

        patch.setattr(Generator, "decode", counting)

    def __call__(self, *overrides: str, **options: Any) -> GenerateSummary:
        given = {"source": str(self.source), "output": str(self.output), "resume": True, **options}
        self.searched.clear()
        return generate(self.run, overrides=["decode.min_length=3", "decode.max_length=3", *overrides], **given)


@pytest.fixture
def work(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(tiny, tmp_path, monkeypatch)


@pytest.fixture
def stopped(work: Work) -> Work:
    """Three of six blocks are finished."""
    work.fails_at = 3
    with pytest.raises(RunError):
        work()
    work.fails_at = -1
    assert len(list(work.parts.glob("*.part"))) == 3 and not work.output.exists()
    return work


@pytest.mark.parametrize("form", Format)
def test_it_goes_on_with_what_is_missing(work: Work, form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"form": form, "n_best": 1 if form is Format.text else 2}
    work(resume=False, **options)
    whole, said = work.output.read_bytes(), capsys.readouterr().err
    assert "out of steps" in said
    work.output.unlink()
    work.fails_at = 4
    with pytest.raises(RunError):
        work(**options)
    capsys.readouterr()
    work.fails_at = -1
    assert work(**options).lines == LINES
    assert work.searched == [4, 5]
    assert work.output.read_bytes() == whole
    assert capsys.readouterr().err == said
    assert not work.parts.exists()


@pytest.mark.parametrize("form", Format)
def test_what_is_whole_is_left_alone(work: Work, form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    """Text cannot be asked what made it, and the note says so."""
    work(form=form)
    before = work.output.read_bytes()
    capsys.readouterr()
    work(form=form)
    assert work.searched == [] and work.output.read_bytes() == before
    said = capsys.readouterr().err
    assert "stands already" in said and ("does not say" in said) == (form is not Format.jsonl)


def test_traces_of_another_run_are_not_taken_for_those_asked_for(work: Work) -> None:
    work(form=Format.jsonl)
    for other in ({"checkpoint": "step-00000060"}, {"ensemble": [work.run]}):
        with pytest.raises(UsageError, match=r"the file was made with (checkpoint|ensemble)"):
            work(form=Format.jsonl, **other)
    work.output.write_text("something else\n", "utf-8")
    with pytest.raises(DataError, match="not JSON"):
        work(form=Format.jsonl)


def test_a_kill_at_the_very_end_costs_nothing(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(KeptBlocks, "remove", lambda self: None)
        work()
    work()
    assert work.searched == [] and not work.parts.exists()


def test_killed_at_every_step(work: Work) -> None:
    work.source.write_text("hen\nbee cat\ndog\n", "utf-8")  # two blocks
    work(resume=False)
    whole = work.output.read_bytes()
    work.output.unlink()
    instants = [(Generator, "decode"), (os, "replace"), (os, "unlink"), (os, "rmdir")]
    for instant in range(1, 100):
        if not killed_at(instant, work, instants):
            break
        missing = 2 - len(list(work.parts.glob("*.part"))) if not work.output.exists() else 0
        work()
        assert (len(work.searched), work.output.read_bytes()) == (missing, whole), f"instant {instant}"
        assert sorted(os.listdir(work.output.parent)) == ["in.txt", "out.txt"]
        work.output.unlink()
    assert instant > 10


def test_what_begins_anew_leaves_no_blocks_beside_it(stopped: Work) -> None:
    """Else the output would later be taken for that of the decoding that was stopped."""
    with pytest.raises(UsageError, match="unfinished decoding stands here"):
        stopped("decode.beam_size=2", resume=False)
    assert stopped.searched == [] and len(list(stopped.parts.glob("*.part"))) == 3
    stopped("decode.beam_size=2", resume=False, overwrite=True)
    assert stopped.searched == list(range(6)) and not stopped.parts.exists()


def test_blocks_of_nobody_are_refused(stopped: Work) -> None:
    (stopped.parts / KeptBlocks.facts_file).unlink()
    with pytest.raises(DataError, match="does not say what they belong to"):
        stopped()
    stopped(resume=False, overwrite=True)
    assert not stopped.parts.exists()


@pytest.mark.parametrize(
    ("overrides", "options", "name"),
    [
        (["decode.beam_size=2"], {}, "decode.beam_size 4, not 2"),
        ([], {"form": Format.jsonl}, "output_format text, not jsonl"),
        ([], {"seed": 8}, "seed 1, not 8"),
        ([], {"checkpoint": "step-00000060"}, "weights"),
        ([], {"split": "test"}, "input"),
    ],
)
def test_other_settings_are_refused(stopped: Work, overrides: list[str], options: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"decoded with {name}"):
        stopped(*overrides, **options)


def test_another_text_is_refused_and_less_memory_is_no_other_decoding(stopped: Work) -> None:
    stopped("decode.batch_tokens=8")
    assert stopped.searched == [3, 4, 5]
    stopped.output.unlink()
    stopped.fails_at = 1
    with pytest.raises(RunError):
        stopped()
    stopped.source.write_text("hen\n" * LINES, "utf-8")
    with pytest.raises(UsageError, match="input"):
        stopped()


def test_damage_is_named(stopped: Work) -> None:
    part = stopped.parts / "00000001.part"
    content = part.read_bytes()
    for wrong in (content[:-1], b"", b"{}\n", b"\xff"):
        part.write_bytes(wrong)
        with pytest.raises(DataError) as caught:
            stopped()
        assert str(part) in caught.value.where and "delete this file" in caught.value.fix
    part.unlink()
    stopped()
    assert stopped.searched == [1, 3, 4, 5]


def test_files_of_others_stay(stopped: Work) -> None:
    (stopped.parts / "mine.txt").write_text("kept")
    stopped()
    assert "mine.txt" in os.listdir(stopped.parts) and KeptBlocks.facts_file not in os.listdir(stopped.parts)


@pytest.mark.parametrize(
    "options",
    [
        ("-o", "out.txt"),
        ("--input", "in.txt"),
        ("--input", "in.txt", "-o", "out.txt", "--overwrite"),
        ("--input", "in.txt", "-o", "out.txt", "--count-flops"),
        ("--sweep", "decode.beam_size=1,2"),
    ],
)
def test_what_cannot_go_on_is_refused(
    tiny: Tiny, indigo: Indigo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Standard input, standard output, and options that go ill together."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("bee\n")
    refused = indigo("decode", tiny.run, "--resume", *options, stdin=b"bee\n")
    assert refused.status == 2 and os.listdir(tmp_path) == ["in.txt"]


@pytest.mark.parametrize("option", ["source", "canvas", "length"])
def test_a_pipe_by_name_cannot_be_read_again(work: Work, tmp_path: Path, option: str) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="pipe cannot be read again"):
        work(**{option: LengthOption(file=pipe) if option == "length" else pipe})


def test_outputs_for_train_are_targets_to_train_on(tiny: Tiny, tmp_path: Path) -> None:
    """A line for each source, in order, that preprocessing takes back as the very tokens; empty ones are dropped."""
    output = tmp_path / "train.distilled"
    generate(tiny.run, split="train", output=str(output), overrides=[f"decode.max_length={MAX_LENGTH}"])
    texts = list(read_lines(output))
    assert len(texts) == SIZES["train"] and any(texts)
    texts[3] = ""
    output.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    recipe = tiny.recipe(f'data.splits.train.target=["{output}"]')
    prepare(recipe, tmp_path / "corpus")
    corpus = Corpus.open(tmp_path / "corpus")
    split = corpus.split("train")
    assert [int(line) for line in split.lines] == [line for line, text in enumerate(texts) if text]
    decode = corpus.codecs.target.vocabulary.decode
    for item, line in enumerate(split.lines):
        assert " ".join(decode(split.target[item].tolist())) == texts[line]
