"""Scores of text: `METRICS` maps a recipe's name to the builder of a metric (see `metric.py` for what one offers).

A builder takes the evaluation tokeniser by keyword and ignores it where it has no use for one. sacreBLEU is imported by
the builders, not here: it takes 0.3 s, and commands that never score read this table's names.
"""

from collections.abc import Callable, Sequence

from indigo_cli.core.settings import did_you_mean
from indigo_cli.errors import UsageError
from indigo_cli.metrics import bleu, chrf, exact_match, ribes, ter
from indigo_cli.metrics.metric import Metric

METRICS: dict[str, Callable[..., Metric]] = {
    "bleu": bleu.build,
    "chrf": chrf.build,
    "ter": ter.build,
    "ribes": ribes.build,
    "exact": exact_match.build,
}

PLANNED = ("meteor", "rouge1", "rouge2", "rougeL", "cider", "ast_exact", "repetition", "length")


def build_sentence_metric(name: str, *, tokenize: str) -> Metric:
    """Return the metric that scores single lines, on the same statistics: BLEU with effective order, others as ever."""
    return bleu.build(tokenize=tokenize, effective_order=True) if name == "bleu" else METRICS[name](tokenize=tokenize)


def build_metrics(names: Sequence[str], *, tokenize: str) -> dict[str, Metric]:
    """Return the named metrics in the order given, each once.

    Args:
        tokenize: What `choose_tokenizer` returned.
    Raises: UsageError for a name that is unknown or not in this version, or if there is none.
    """
    available = f"available: {', '.join(METRICS)}"
    if not names:
        raise UsageError("no metric to compute", where="evaluate.metrics", fix=available)
    for name in names:
        if name in METRICS:
            continue
        if name in PLANNED:
            raise UsageError(f"metric {name!r} is not in this version", where="evaluate.metrics", fix=available)
        hint = f"{did_you_mean(name.lower(), METRICS)} {available}".strip()
        raise UsageError(f"unknown metric {name!r}", where="evaluate.metrics", fix=hint)
    return {name: METRICS[name](tokenize=tokenize) for name in names}
