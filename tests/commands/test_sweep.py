"""`indigo decode --sweep`: what it prints, and that it can be taken at its word."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import Tiny


@pytest.mark.slow
def test_the_line_that_it_prints_gives_its_figure(indigo: Any, tiny: Tiny, tmp_path: Path) -> None:
    table, picture = tmp_path / "sweep.tsv", tmp_path / "sweep.png"
    done = indigo("decode", tiny.run, "--sweep", "decode.beam_size=1..3", "-o", table, "--png", picture)
    assert done.status == 0, done.err
    best = done.err.strip().splitlines()[-1]
    found = re.fullmatch(r"best bleu on valid \(8 lines\): (\S+) with (.*)", best)
    assert found is not None
    output = tmp_path / "best.txt"
    assert indigo("decode", tiny.run, "--split", "valid", *found[2].split(), "-o", output).status == 0
    reference = tiny.recipe_path.parent / "valid.tgt"
    options = ["--metrics", "bleu", "--set", "evaluate.tokenize=none", "--format", "json"]
    score = json.loads(indigo("evaluate", output, "--reference", reference, *options).out)["metrics"]["bleu"]["score"]
    assert f"{score:.2f}" == found[1]
    header, *rows = (line.split("\t") for line in table.read_text(encoding="utf-8").splitlines())
    (chosen,) = (dict(zip(header, row, strict=True)) for row in rows if row[-1] == "true")
    assert float(chosen["bleu"]) == score
    assert f"{found[1]} *" in done.out
    assert picture.is_file()


def test_stdout_holds_the_table_alone(indigo: Any, tiny: Tiny) -> None:
    done = indigo("decode", tiny.run, "--sweep", "decode.beam_size=1,2", "--sweep", "decode.length_penalty=0,1")
    lines = [line.split() for line in done.out.splitlines() if line.strip()]
    assert lines[1][:2] == ["beam_size", "length_penalty"]
    assert [line[:2] for line in lines[3:7]] == [["1", "0.0"], ["1", "1.0"], ["2", "0.0"], ["2", "1.0"]]
    assert len(lines) == 8
    quiet = indigo("--quiet", "decode", tiny.run, "--sweep", "decode.beam_size=1")
    assert (quiet.status, quiet.err) == (0, "")
    assert "beam_size" in quiet.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sweep", "decode.beam_sise=1"], "did you mean `beam_size`?"),
        (["--sweep", "decode.beam_size=0"], "at: --sweep decode.beam_size=0"),
        (["--sweep", "beam_size=1"], "did you mean `decode.beam_size`?"),
    ],
)
def test_errors_have_three_lines(indigo: Any, tiny: Tiny, options: list[str], message: str) -> None:
    done = indigo("decode", tiny.run, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
