"""What the demo shows in the end: scores, an output that grows, the commands."""

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from indigo_cli.demo.chain import BAG, ORDERS, SCRIPT, Results, jumps
from indigo_cli.engine.assess import Report
from indigo_cli.engine.display import growth, printable
from indigo_cli.engine.score_report import MetricScore

TITLES = {
    BAG: ("", "the bag as given"),
    "l2r": ("l2r", "left to right"),
    "sao": ("sao", "in orders it finds"),
}
DIGITS = {"bleu": 1, "exact": 3}


def render(results: Results) -> list[RenderableType]:
    """Return everything but the commands, in the order to print."""
    task = results.plan.task
    order, way = TITLES[ORDERS[-1]]
    ending = "comes out right" if results.shown_is_right else "does not come out right, as no other of its length does"
    but = "; this did not" if jumps(results.shown) else ""
    counts = {split: results.num_items[split] for split in ("train", "test")}
    return [
        _heading(task.title),
        Text(),
        Text(task.introduction.format(**counts)),
        Text(),
        score_table(results),
        Text(),
        *(Text(line, "dim") for line in _small_print(results)),
        Text(),
        _heading(f"How {order} writes: {way}"),
        Text(),
        Text.assemble(
            f"{100 * results.from_left:.0f} % of what it wrote grew from left to right{but}. In goes ",
            (printable(results.shown_source), "bold"),
            f"; a {task.item} that was never seen {ending}:",
        ),
        Text(),
        growth(results.shown),
        Text(),
        _heading("The commands that ran"),
        Text(),
    ]


def commands(results: Results) -> list[str]:
    """Return the lines that say how to do it by hand."""
    plan = results.plan
    return [
        f"# Paste one to run that step again, from here or with {plan.place(SCRIPT)}. `train` goes on where its run",
        f"# stands: remove {' and '.join(map(plan.place, ORDERS))} to train anew.",
        *(step.command() for step in plan.steps(results.shown.id)),
    ]


def score_table(results: Results) -> Table:
    """Return a row for each scored file, and a column for each metric and part; under a figure its 95 % interval."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="bold")
    table.add_column("order", no_wrap=True, style="bold")
    table.add_column("", no_wrap=True)
    for part, metric, report in _columns(results):
        table.add_column(results.plan.task.parts.get(part, report.titles[metric]), justify="right", no_wrap=True)
    for name in results.plan.scored():
        cells = (_cell(metric, score_of(results, name, part, metric)) for part, metric, _ in _columns(results))
        table.add_row(*TITLES[name], *cells)
    return table


def score_of(results: Results, name: str, part: str, metric: str) -> MetricScore:
    """Return a figure of a scored file, of all or of a part of the test set."""
    path = results.plan.scored(part)[name]
    return next(system.scores[metric] for system in results.reports[part].systems if system.name == path)


def _columns(results: Results) -> Iterator[tuple[str, str, Report]]:
    for part, report in results.reports.items():
        for metric in results.plan.task.metrics:
            yield part, metric, report


def _cell(metric: str, score: MetricScore) -> Text:
    digits = DIGITS[metric]
    interval = f"[{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return Text.assemble(f"{score.score:.{digits}f}", "\n", (interval, "dim"))


def _small_print(results: Results) -> Iterator[str]:
    """Yield what one has to know of the figures."""
    whole, metrics = results.reports[""], results.plan.task.metrics
    last = ORDERS[-1]
    chances = (f"{whole.titles[metric]} p = {score_of(results, last, '', metric).p_value:.3f}" for metric in metrics)
    assert whole.comparison is not None
    yield "In brackets: 95 % intervals."
    yield f"{last} against {ORDERS[0]}: {', '.join(chances)} ({whole.comparison.describe()})"
    for order, (updates, minutes) in results.trained.items():
        yield f"{order}: {updates:,} updates, {minutes:.1f} CPU minutes"
    yield f"{whole.titles[metrics[0]]}: {whole.systems[0].scores[metrics[0]].signature}"


def _heading(text: str) -> RenderableType:
    return Rule(Text(text, "bold"), align="left", style="dim")
