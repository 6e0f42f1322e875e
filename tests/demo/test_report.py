"""What the demo prints: figures in their rows, a sentence that grows, nothing wider than the page."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from indigo_cli.core.order import order_to_slots
from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.demo.chain import BAG, ORDERS, Plan, Results
from indigo_cli.demo.report import commands, render
from indigo_cli.engine.assess import EvaluateConfig, assess

REFERENCES = ["Return the name of the old file now.", "Sort the list of all the names here."]


@pytest.fixture
def results() -> Results:
    """The first order writes everything rightly, the second one half of it."""
    wrong = "Sort the names of all the list here."
    outputs = {BAG: [". Return file name now of old the the", ". Sort all here list names of the the"]}
    outputs |= {ORDERS[0]: REFERENCES, ORDERS[1]: [REFERENCES[0], wrong]}
    tokens = ("Return", "the", "name", "of", "the", "old", "file", "now", ".")
    order = (0, 2, 6, 1, 3, 4, 5, 7, 8)
    shown = TraceRecord(
        id=0,
        rank=1,
        score=-0.3,
        log_prob=-3.0,
        text=REFERENCES[0],
        tokens=tokens,
        order=order,
        slots=order_to_slots(order),
        rounds=tuple(range(9)),
        word_log_probs=(-0.2,) * 9,
        slot_log_probs=(-0.1,) * 9,
        close_log_probs=(),
        end_log_prob=-0.3,
        finished=True,
    )
    return Results(
        plan=Plan(Path("runs/demo"), "small"),
        num_sentences={"train": 23021, "valid": 500, "test": 2},
        trained={ORDERS[0]: (1300, 4.96), ORDERS[1]: (1250, 5.7)},
        report=assess(outputs, [REFERENCES], config=EvaluateConfig(metrics=["bleu", "exact"]), language="en"),
        shown=shown,
        shown_bag="\u202e" + outputs[BAG][0],
        shown_is_right=True,
    )


def printed(results: Results, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(*render(results), sep="\n")
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_rows_figures_and_width(results: Results, width: int) -> None:
    lines = printed(results, width)
    assert max(map(len, lines)) <= width
    squeezed = [" ".join(line.split()) for line in lines]
    assert f"{ORDERS[0]} left to right 100.0 [100.0, 100.0] 1.000 [1.000, 1.000]" in squeezed
    assert any(
        line.startswith(f"{ORDERS[1]} rare words first ") and " 0.500 [0.000, 1.000]" in line for line in squeezed
    )
    assert any(line.startswith("the bag as given ") and line.endswith(" 0.000 [0.000, 0.000]") for line in squeezed)
    told = " ".join(squeezed)
    assert "23,021 sentences of 4 to 16 words" in told
    assert f"({ORDERS[0]}: 1,300 updates, 5.0 CPU minutes; {ORDERS[1]}: 1,250 updates, 5.7 CPU minutes)" in told


def test_the_sentence_grows_in_its_order(results: Results) -> None:
    lines = [" ".join(line.split()) for line in printed(results, 120)]
    canvases = [
        "[Return]",
        "Return [name]",
        "Return name [file]",
        "Return [the] name file",
        "Return the name [of] file",
    ]
    assert [line.endswith(canvas) for line, canvas in zip(_steps(lines), canvases, strict=False)] == [True] * 5
    assert len(_steps(lines)) == len(results.shown.tokens)


def _steps(lines: list[str]) -> list[str]:
    """Return the rows of insertions."""
    return [line for line in lines if line[:1].isdigit() and "/" in line]


def test_the_bag_cannot_steer_the_terminal(results: Results) -> None:
    text = "\n".join(printed(results, 120))
    assert "\u202e" not in text
    assert "\\u202e. Return file name" in text


def test_commands_name_the_sentence_that_is_shown(results: Results) -> None:
    *remarks, show = [line for line in commands(results) if line.startswith("#") or " show " in line]
    assert all(remark.startswith("#") for remark in remarks)
    assert show.endswith(f"{ORDERS[-1]}.traces.jsonl --id 0")
