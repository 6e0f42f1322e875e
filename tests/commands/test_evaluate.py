"""The command: what goes to stdout, what to stderr, and how it ends."""

import dataclasses
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.cli import main
from indigo_cli.commands.evaluate import RECIPE_KEYS
from indigo_cli.recipe import Recipe

REFERENCE = ["the red cat sat on the mat", "a dog ran far off today", "it's late"]
SYSTEM = ["the red cat sat on a mat", "a dog ran far off", "it's late"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"hyp": SYSTEM, "ref": REFERENCE, "best": REFERENCE}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["evaluate", *args, "--format", "json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_json_is_one_line_with_the_defaults_of_the_recipe(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp", "--reference", "ref", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    report = json.loads(out)
    assert list(report) == ["n", "metrics"]
    assert report["n"] == 3
    assert list(report["metrics"]) == ["bleu", "chrf"]
    assert list(report["metrics"]["bleu"]) == ["score", "signature", "ci"]
    assert "3 lines" in err


def test_table_shows_every_system_with_signatures(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["hyp", "best", "--reference", "ref", "--metrics", "bleu,ter,ribes,exact", "--baseline", "hyp"]
    assert main(["evaluate", *args]) == 0
    out = capsys.readouterr().out
    parts = (
        "hyp (baseline)",
        "best 100.00",
        "best 1.0000",
        "less is better",
        "p = 0.",
        "tok:13a",
        "tok:tercom",
        "alpha:",
    )
    for part in parts:
        assert part in out
    assert "* p < 0.05, ** p < 0.01: differs from hyp (paired bootstrap, 1,000 resamples, seed 12345)" in out
    assert "\x1b" not in out
    assert "…" not in out


def test_the_first_of_several_systems_is_the_baseline(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = _json(capsys, "hyp", "best", "--reference", "ref", "--baseline", "hyp")
    assert _json(capsys, "hyp", "best", "--reference", "ref") == named
    assert named["baseline"]["name"] == "hyp"


@pytest.mark.slow
def test_test_option_and_setting_choose_the_test(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_option = _json(capsys, "hyp", "best", "--reference", "ref", "--test", "randomisation")
    by_setting = _json(capsys, "hyp", "best", "--reference", "ref", "--set", "evaluate.significance=randomisation")
    assert by_option == by_setting
    assert by_option["baseline"]["test"] == {"name": "randomisation", "samples": 10_000, "seed": 12345}
    assert _json(capsys, "hyp", "best", "--reference", "ref")["baseline"]["test"]["name"] == "bootstrap"


def test_a_test_of_one_system_is_said_to_do_nothing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp", "--reference", "ref", "--test", "bootstrap"]) == 0
    assert "nothing to compare" in capsys.readouterr().err


def test_json_holds_the_intervals_anyway(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp", "--reference", "ref", "--format", "json", "--no-intervals"]) == 0
    out, err = capsys.readouterr()
    assert '"ci"' in out and "note: --intervals" in err


@pytest.mark.slow
def test_markdown_and_latex_go_to_stdout(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["evaluate", "hyp", "best", "--reference", "ref", "--by-length"]
    assert main([*args, "--format", "markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("| system ") and "**100.00**" in out and "[" not in out
    assert main([*args, "--format", "latex", "--intervals"]) == 0
    out = capsys.readouterr().out
    assert out.count(r"\begin{tabular}") == 2 and r"\textbf{100.00}" in out and r"\scriptsize [100.00, 100.00]" in out
    assert "\x1b" not in out


def test_scores_by_length_are_printed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["hyp", "--reference", "ref", "--metrics", "exact,bleu", "--by-length"]
    assert main(["evaluate", *args]) == 0
    assert "exact match by length of the reference, in tokens (13a)" in capsys.readouterr().out
    found = _json(capsys, *args)["by_length"]
    assert found["metric"] == "exact" and found["tokens"] == "13a"
    assert [(bucket["low"], bucket["n"], bucket["scores"]["hyp"]["score"]) for bucket in found["buckets"]] == [
        (2, 1, 1.0),
        (3, 1, 0.0),
        (7, 1, 0.0),
    ]


def test_further_figures_are_printed_where_asked(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["hyp", "best", "--reference", "ref", "--metrics", "exact,rouge1,length", "--set", "evaluate.length_limit=9"]
    assert main(["evaluate", *args, "--parts"]) == 0
    out = capsys.readouterr().out
    assert "Further figures" in out and "unused room (less is better)" in out and "wish:9" in out
    found = _json(capsys, *args, "--parts")
    assert found["metrics"]["length"]["parts"]["absolute"]["score"] == pytest.approx((24 - 9 + 17 - 9) / 3)
    assert found["baseline"]["parts_p_value"]["length"]["absolute"] == 1.0  # the first system is the baseline
    assert "parts" not in _json(capsys, *args)["metrics"]["length"]
    assert main(["evaluate", "hyp", "--reference", "ref", "--metrics", "exact", "--parts"]) == 0
    out, err = capsys.readouterr()
    assert "Further figures" not in out and "exact have one figure each" in err


def test_settings_of_rouge_and_length_reach_them(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["evaluate.stemming=true", "evaluate.rouge_bytes=75", "evaluate.length_unit=byte"]
    options = [word for setting in settings for word in ("--set", setting)]
    found = _json(capsys, "hyp", "--reference", "ref", "--metrics", "rougeL,length", *options)["metrics"]
    assert "stem:porter|bytes:75|figure:recall" in found["rougeL"]["signature"]
    assert "unit:byte|wish:reference" in found["length"]["signature"]


@pytest.mark.slow
def test_scores_by_source_length_are_printed_and_drawn(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "src").write_text("a " * 9 + "\n" + "b, " * 6 + "\n" + "c " * 25 + "\n", encoding="utf-8")
    args = ["hyp", "best", "--reference", "ref", "--metrics", "exact", "--source", "src", "--by-source-length"]
    assert main(["evaluate", *args, "--png", "a.png"]) == 0
    out, err = capsys.readouterr()
    assert (
        "exact match by least length of the source, in tokens (13a)" in out and "≥ 20" in out and "--source" not in err
    )
    assert (files / "a.png").read_bytes().startswith(b"\x89PNG")
    found = _json(capsys, *args)
    assert "by_length" not in found
    buckets = found["by_source_length"]["buckets"]
    assert [(bucket["low"], bucket["high"], bucket["n"]) for bucket in buckets] == [(10, None, 2), (20, None, 1)]
    assert [bucket["scores"]["hyp"]["score"] for bucket in buckets] == [0.5, 1.0]
    assert set(_json(capsys, *args, "--by-length")) == {
        "n",
        "metrics",
        "baseline",
        "systems",
        "by_length",
        "by_source_length",
    }
    set_by_user = _json(capsys, *args, "--set", "evaluate.source_lengths=[25, 11]")["by_source_length"]["buckets"]
    assert [(bucket["low"], bucket["n"]) for bucket in set_by_user] == [(11, 2), (25, 1)]
    chars = _json(capsys, *args, "--set", "data.source_lang=zh")["by_source_length"]
    assert chars["tokens"] == "zh"


@pytest.mark.slow
def test_scores_by_length_are_drawn(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["hyp", "best", "--reference", "ref", "--metrics", "exact", "--png", "a.png"]
    assert main(["evaluate", *args]) == 0
    assert "by length" not in capsys.readouterr().out
    assert (files / "a.png").read_bytes().startswith(b"\x89PNG")


def test_scores_of_single_lines(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp", "best", "--reference", "ref", "--sentence", "s.tsv"]) == 0
    assert "eff:yes" in capsys.readouterr().err
    rows = (files / "s.tsv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "id\tsystem\tbleu\tchrf"
    assert len(rows) == 1 + 2 * len(REFERENCE)
    assert rows[-1] == "2\tbest\t100\t100"


@pytest.mark.parametrize("option", ["--sentence", "--png"])
def test_a_file_in_the_way_is_said_before_anything_is_scored(
    files: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (files / "old").write_text("mine", encoding="utf-8")
    assert main(["evaluate", "hyp", "--reference", "ref", option, "old"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "exists already" in err
    assert main(["evaluate", "hyp", "--reference", "ref", option, "old", "--overwrite"]) == 0
    assert (files / "old").read_bytes() != b"mine"


def test_empty_reference_is_an_error_or_nought(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "gap").write_text("the red cat sat on the mat\n\nit's late\n", encoding="utf-8")
    assert main(["evaluate", "hyp", "--reference", "gap", "--metrics", "ribes"]) == 2
    assert "at: gap:2" in capsys.readouterr().err
    zero = ["--set", "evaluate.empty_reference=zero"]
    assert 0 < _json(capsys, "hyp", "--reference", "gap", "--metrics", "ribes", *zero)["metrics"]["ribes"]["score"] < 1


def test_metrics_option_overrules_the_setting(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = ["--set", 'evaluate.metrics=["bleu"]']
    assert list(_json(capsys, "hyp", "--reference", "ref", *setting)["metrics"]) == ["bleu"]
    args = ["hyp", "--reference", "ref", *setting, "--metrics", "ter, exact"]
    assert list(_json(capsys, *args)["metrics"]) == ["ter", "exact"]


@pytest.mark.parametrize(
    ("setting", "signature"),
    [("evaluate.tokenize=char", "tok:char"), ("data.target_lang=zh", "tok:zh"), ("evaluate.tokenize=none", "tok:none")],
)
def test_settings_reach_the_tokeniser(
    files: Path, capsys: pytest.CaptureFixture[str], setting: str, signature: str
) -> None:
    report = _json(capsys, "hyp", "--reference", "ref", "--set", setting)
    assert signature in str(report["metrics"]["bleu"]["signature"])


def test_standard_input_is_a_hypothesis(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _json(capsys, "hyp", "--reference", "ref")
    stream = io.TextIOWrapper(io.BytesIO((files / "hyp").read_bytes()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    assert _json(capsys, "-", "--reference", "ref") == expected


def test_seed_is_in_the_signature(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _json(capsys, "hyp", "--reference", "ref", "--seed", "7")
    assert "seed:7" in str(report["metrics"]["bleu"]["signature"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["hyp"], "'--reference'"),
        (["hyp", "--reference", "missing"], "no such file"),
        (["hyp", "--reference", "ref", "--metrics", "meteor"], "'meteor' is not in this version"),
        (["hyp", "--reference", "ref", "--test", "t"], "'--test'"),
        (["hyp", "--reference", "ref", "--sentence", "-"], "standard output (-)"),
        (["hyp", "--reference", "ref", "--metrics", "blue"], "did you mean `bleu`?"),
        (["hyp", "--reference", "ref", "--metrics", ","], "no metric to compute"),
        (["hyp", "--reference", "ref", "--set", "evaluate.tokenise=13a"], "did you mean `tokenize`?"),
        (["hyp", "--reference", "ref", "--set", "evaluate.tokenize=13b"], "did you mean `13a`?"),
        (["hyp", "--reference", "ref", "--set", "evaluate=3"], "evaluate must be a table"),
        (["hyp", "--reference", "ref", "--set", "data=3"], "data must be a table"),
        (["hyp", "--reference", "ref", "--set", "evalute.tokenize=13a"], "did you mean `evaluate`?"),
        (["hyp", "--reference", "ref", "--format", "xml"], "xml"),
        (["hyp", "--reference", "ref", "--by-source-length"], "add --source FILE"),
        (["hyp", "--reference", "ref", "--source", "ref", "--by-source-length"], "no source line has 10 tokens"),
        (
            ["hyp", "--reference", "ref", "--source", "ref", "--by-source-length", "--by-length", "--png", "new.png"],
            "--png draws one picture",
        ),
        (["hyp", "--reference", "ref", "--set", "evaluate.length_unit=words"], "did you mean `word`?"),
        (["hyp", "--reference", "ref", "--set", "evaluate.rouge_bytes=-1"], "evaluate.rouge_bytes"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint(
    files: Path, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert main(["evaluate", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_unequal_files_end_with_2(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "short").write_text("one\n", encoding="utf-8")
    assert main(["evaluate", "short", "--reference", "ref"]) == 2
    err = capsys.readouterr().err
    assert "short has 1 lines but ref has 3" in err


def test_warning_goes_to_stderr(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "tok").write_text("it 's late\n" * 3, encoding="utf-8")
    assert main(["evaluate", "tok", "--reference", "ref"]) == 0
    out, err = capsys.readouterr()
    assert "look tokenised" in err
    assert "look tokenised" not in out


def test_source_is_checked_and_said_to_be_unused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "hyp", "--reference", "ref", "--source", "best"]) == 0
    assert "--source" in capsys.readouterr().err


def test_other_settings_of_a_recipe_are_accepted_with_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "data.source_lang=en", "--set", "train.max_steps=3", "--set", "data.target_lang=en"]
    assert main(["evaluate", "hyp", "--reference", "ref", *settings]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1 and "data.source_lang, train.max_steps" in notes[0] and "target_lang" not in notes[0]


def test_the_keys_of_a_recipe_are_known() -> None:
    assert set(RECIPE_KEYS) == {field.name for field in dataclasses.fields(Recipe)}


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_quietly(files: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "indigo_cli", "evaluate", "hyp", "--reference", "ref"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
