"""What the demo prints: figures in their rows, an output that grows, nothing wider than the page."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from indigo_cli.core.order import order_to_slots
from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.demo.chain import BAG, ORDERS, Plan, Results
from indigo_cli.demo.report import DIGITS, TITLES, commands, render
from indigo_cli.demo.tasks import TASKS
from indigo_cli.engine.assess import EvaluateConfig, Report, assess

SENTENCES = ["Return the name of the old file now.", "Sort the list of all the names here."]
PATHS = {"": ["a b c", "d e f", "c b a", "f e d"], "out": ["a b c", "d e f"], "in": ["c b a", "f e d"]}


def report(plan: Plan, part: str, outputs: dict[str, list[str]], references: list[str]) -> Report:
    """Score outputs as the demo does, under the names of their files."""
    named = {path: outputs[name] for name, path in plan.scored(part).items()}
    first = plan.output(ORDERS[0], part)
    config = EvaluateConfig(metrics=list(plan.task.metrics))
    return assess(named, [references], config=config, language="en", baseline=(first, named[first]))


def record(text: str, tokens: tuple[str, ...], order: tuple[int, ...]) -> TraceRecord:
    """Return an output; probabilities are made up."""
    return TraceRecord(
        id=0,
        rank=1,
        score=-0.3,
        log_prob=-3.0,
        text=text,
        tokens=tokens,
        order=order,
        slots=order_to_slots(order),
        rounds=tuple(range(len(order))),
        word_log_probs=(-0.2,) * len(order),
        slot_log_probs=(-0.1,) * len(order),
        close_log_probs=(),
        end_log_prob=-0.3,
        finished=True,
    )


@pytest.fixture(scope="module")
def sentences() -> Results:
    """The first order writes everything rightly, the second one half of it."""
    wrong = "Sort the names of all the list here."
    bags = [". Return file name now of old the the", ". Sort all here list names of the the"]
    plan = Plan(Path("runs/demo/sentences"), "sentences", "small")
    tokens = ("Return", "the", "name", "of", "the", "old", "file", "now", ".")
    return Results(
        plan=plan,
        num_items={"train": 23021, "valid": 500, "test": 2},
        trained={ORDERS[0]: (1300, 4.96), ORDERS[1]: (1250, 5.7)},
        reports={"": report(plan, "", {BAG: bags, "l2r": SENTENCES, "sao": [SENTENCES[0], wrong]}, SENTENCES)},
        from_left=0.914,
        shown=record(SENTENCES[0], tokens, (0, 2, 6, 1, 3, 4, 5, 7, 8)),
        shown_source="\u202e" + bags[0],
        shown_is_right=True,
    )


@pytest.fixture(scope="module")
def graphs() -> Results:
    """From left to right all inward paths are right and no other; searched, all but one outward path."""
    plan = Plan(Path("runs/demo/star-graph"), "star-graph", "small")
    outputs = {
        "": {"l2r": ["x", "x", *PATHS["in"]], "sao": ["x", *PATHS[""][1:]]},
        "out": {"l2r": ["x", "x"], "sao": ["x", "d e f"]},
        "in": {"l2r": PATHS["in"], "sao": PATHS["in"]},
    }
    return Results(
        plan=plan,
        num_items={"train": 100_000, "valid": 500, "test": 4},
        trained={"l2r": (1000, 0.8), "sao": (1000, 1.9)},
        reports={part: report(plan, part, outputs[part], references) for part, references in PATHS.items()},
        from_left=0.5,
        shown=record("d e f", ("d", "e", "f"), (2, 1, 0)),
        shown_source="d>e d>g e>f g>h goal:f start:d",
        shown_is_right=True,
    )


def printed(results: Results, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(*render(results), sep="\n")
    return capture.get().splitlines()


def squeezed(results: Results, width: int = 120) -> list[str]:
    return [" ".join(line.split()) for line in printed(results, width)]


@pytest.mark.parametrize("width", [80, 120])
def test_sentences(sentences: Results, width: int) -> None:
    assert max(map(len, printed(sentences, width))) <= width
    lines = squeezed(sentences, width)
    row = lines.index("l2r left to right 100.0 1.000")
    assert lines[row - 1].endswith("] [0.000, 0.000]")
    assert lines[row - 2].startswith("the bag as given ")
    assert lines[row + 1] == "[100.0, 100.0] [1.000, 1.000]"
    assert lines[row + 2].startswith("sao in orders it finds ")
    assert lines[row + 2].endswith(" 0.500")
    assert lines[row + 3].endswith("[0.000, 1.000]")
    told = " ".join(lines)
    assert "23,021 sentences of 4 to 16 words" in told
    assert "l2r: 1,300 updates, 5.0 CPU minutes" in told
    assert "91 % of what it wrote grew from left to right; this did not. In goes" in told


@pytest.mark.parametrize("width", [80, 120])
def test_graphs_have_a_column_for_each_half(graphs: Results, width: int) -> None:
    assert max(map(len, printed(graphs, width))) <= width
    lines = squeezed(graphs, width)
    row = lines.index("order exact match edges outwards edges inwards")
    assert lines[row + 2] == "l2r left to right 0.500 0.000 1.000"
    assert lines[row + 3].endswith("] [0.000, 0.000] [1.000, 1.000]")
    assert lines[row + 4] == "sao in orders it finds 0.750 0.500 1.000"


@pytest.mark.parametrize("case", ["sentences", "graphs"])
def test_the_chance_is_that_of_the_paired_test(case: str, request: pytest.FixtureRequest) -> None:
    results: Results = request.getfixturevalue(case)
    (line,) = (line for line in squeezed(results) if line.startswith("sao against l2r: "))
    for metric in results.plan.task.metrics:
        last = results.reports[""].systems[-1]
        assert f"{results.reports[''].titles[metric]} p = {last.scores[metric].p_value:.3f}" in line
    assert line.endswith("(paired bootstrap, 1,000 resamples, seed 12345)")


def test_the_sentence_grows_in_its_order(sentences: Results) -> None:
    lines = squeezed(sentences)
    canvases = [
        "[Return]",
        "Return [name]",
        "Return name [file]",
        "Return [the] name file",
        "Return the name [of] file",
    ]
    steps = [line for line in lines if line[:1].isdigit() and "/" in line]
    assert [line.endswith(canvas) for line, canvas in zip(steps, canvases, strict=False)] == [True] * 5
    assert len(steps) == len(sentences.shown.tokens)


def test_what_went_in_is_named_and_cannot_steer_the_terminal(sentences: Results, graphs: Results) -> None:
    text = " ".join(squeezed(sentences))
    assert "\u202e" not in text
    assert "In goes \\u202e. Return file name now of old the the; a sentence that was never seen comes out" in text
    straight = replace(graphs, shown=record("d e f", ("d", "e", "f"), (0, 1, 2)), shown_is_right=False)
    text = " ".join(squeezed(straight))
    assert "50 % of what it wrote grew from left to right. In goes" in text
    assert "In goes d>e d>g e>f g>h goal:f start:d; a path that was never seen does not come out right" in text


def test_commands_name_the_output_that_is_shown(sentences: Results) -> None:
    *remarks, show = [line for line in commands(sentences) if line.startswith("#") or " show " in line]
    assert all(remark.startswith("#") for remark in remarks)
    assert show.endswith("test.sao.traces.jsonl --id 0")


def test_everything_shown_has_a_name() -> None:
    assert {BAG, *ORDERS} <= set(TITLES)
    assert {metric for task in TASKS.values() for metric in task.metrics} == set(DIGITS)
