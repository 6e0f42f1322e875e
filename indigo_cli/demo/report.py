"""What the demo shows in the end: scores, a sentence that grows, the commands."""

from rich import box
from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from indigo_cli.demo.chain import BAG, METRICS, ORDERS, SCRIPT, Results
from indigo_cli.demo.sentences import MAX_WORDS, MIN_WORDS
from indigo_cli.engine.display import growth, printable

TITLES = {
    BAG: ("", "the bag as given"),
    "l2r": ("l2r", "left to right"),
    "rf": ("rf", "rare words first"),
}
HEADINGS = {"bleu": "BLEU", "exact": "exact match"}
DIGITS = {"bleu": 1, "exact": 3}


def render(results: Results) -> list[RenderableType]:
    """Return everything but the commands, in the order to print."""
    order, way = TITLES[ORDERS[-1]]
    ending = "comes out right" if results.shown_is_right else "does not come out right, as no other of its length does"
    return [
        _heading("Word order recovery"),
        Text(),
        _introduction(results),
        Text(),
        score_table(results),
        Text(),
        Text(results.report.systems[0].scores[METRICS[0]].signature, "dim"),
        Text(),
        _heading(f"How {order} writes: {way}"),
        Text(),
        Text.assemble(
            "In goes ", (printable(results.shown_bag), "bold"), f"; a sentence that was never seen {ending}:"
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


def _introduction(results: Results) -> Text:
    counts = results.num_sentences
    trainings = "; ".join(
        f"{order}: {updates:,} updates, {minutes:.1f} CPU minutes"
        for order, (updates, minutes) in results.trained.items()
    )
    return Text(
        f"{counts['train']:,} sentences of {MIN_WORDS} to {MAX_WORDS} words stood in Python files that are installed "
        "here. Two models got each of them as a bag of words and learnt to write it by insertion, each in an order of "
        f"its own ({trainings}). Their scores on {counts['test']:,} other sentences:"
    )


def score_table(results: Results) -> Table:
    """Return a row for the bags and one for each order, each figure with its 95 % interval."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="bold")
    table.add_column("order", no_wrap=True, style="bold")
    table.add_column("", no_wrap=True)
    for metric in METRICS:
        table.add_column(HEADINGS[metric], justify="right", no_wrap=True)
        table.add_column("95 % interval", no_wrap=True, style="dim")
    for system in results.report.systems:
        cells: list[str] = []
        for metric, figure in system.scores.items():
            digits = DIGITS[metric]
            cells += [f"{figure.score:.{digits}f}", f"[{figure.low:.{digits}f}, {figure.high:.{digits}f}]"]
        table.add_row(*TITLES[system.name], *cells)
    return table


def _heading(text: str) -> RenderableType:
    return Rule(Text(text, "bold"), align="left", style="dim")
