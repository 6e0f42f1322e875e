"""What a sweep found: a row for each combination, the chosen one, as a table and as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from indigo_cli.core.toml import dump_value
from indigo_cli.engine.score_report import DIGITS
from indigo_cli.engine.sweep_grid import Point, value_text

RANKINGS = {"merged": True, "plain": False}
"""Names of the two rankings of the same hypotheses, with the value of `decode.merge_strings` that gives each."""
CHOSEN = "*"


@dataclass(frozen=True)
class Scored:
    """One combination, decoded and scored.

    Args:
        point: The settings.
        scores: By ranking, then by metric.
        seconds: Of decoding.
        hypotheses: Mean number of hypotheses that the search found for a line.
        strings: Mean number of different strings among them.
        unfinished: By ranking: lines whose best hypothesis ran out of steps.
    """

    point: Point
    scores: Mapping[str, Mapping[str, float]]
    seconds: float
    hypotheses: float
    strings: float
    unfinished: Mapping[str, int]


@dataclass(frozen=True)
class SweepReport:
    """All combinations of a sweep.

    Args:
        split: What was decoded.
        num_lines: Its lines.
        scored: In the order of the grid.
        higher_is_better, decimals, signatures: Of each metric; the first metric chooses.
    """

    split: str
    num_lines: int
    scored: Sequence[Scored]
    higher_is_better: Mapping[str, bool]
    decimals: Mapping[str, int]
    signatures: Mapping[str, str]

    @property
    def keys(self) -> list[str]:
        """Names of the settings that vary."""
        return list(self.scored[0].point.values)

    @property
    def metric(self) -> str:
        """Name of the metric that chooses."""
        return next(iter(self.higher_is_better))

    def chosen(self) -> tuple[Scored, str]:
        """Return the best combination and its ranking.

        Of equal scores the smaller beam wins, then the earlier combination, then merged strings.
        """
        sign = -1 if self.higher_is_better[self.metric] else 1

        def rank(candidate: tuple[int, str]) -> tuple[float, int, int, int]:
            number, ranking = candidate
            found = self.scored[number]
            score = sign * round(found.scores[ranking][self.metric], DIGITS)
            return score, found.point.config.beam_size, number, list(RANKINGS).index(ranking)

        number, ranking = min(
            ((number, ranking) for number in range(len(self.scored)) for ranking in RANKINGS), key=rank
        )
        return self.scored[number], ranking

    def text(self) -> str:
        """Return one line: the score of the chosen combination and how to ask for it."""
        found, ranking = self.chosen()
        score = self.show(self.metric, found.scores[ranking][self.metric])
        settings = {**found.point.values, "merge_strings": RANKINGS[ranking]}
        options = " ".join(f"--set decode.{key}={dump_value(value)}" for key, value in settings.items())
        return f"best {self.metric} on {self.split} ({self.num_lines:,} lines): {score} with {options}"

    def show(self, metric: str, score: float) -> str:
        """Return a score with the digits of its metric."""
        return f"{score:.{self.decimals[metric]}f}"

    def table(self) -> Table:
        """Return a row for each combination, the chosen figure marked."""
        best, best_ranking = self.chosen()
        table = Table(box=box.SIMPLE_HEAD, caption=f"{CHOSEN} chosen by {self.metric}", caption_justify="left")
        for key in self.keys:
            table.add_column(key, justify="right")
        for metric, higher in self.higher_is_better.items():
            for ranking in RANKINGS:
                table.add_column(f"{metric}{'' if higher else ' (less is better)'}\n{ranking}", justify="right")
        for name in ("hypotheses\na line", "different\nstrings", "seconds"):
            table.add_column(name, justify="right")
        for found in self.scored:
            cells = [Text(value_text(found.point.values[key])) for key in self.keys]
            for metric in self.higher_is_better:
                for ranking in RANKINGS:
                    marked = found is best and ranking == best_ranking and metric == self.metric
                    score = self.show(metric, found.scores[ranking][metric])
                    cells.append(Text(f"{score} {CHOSEN}", "bold") if marked else Text(f"{score}  "))
            counts = (f"{found.hypotheses:.2f}", f"{found.strings:.2f}", f"{found.seconds:.1f}")
            table.add_row(*cells, *(Text(count) for count in counts))
        return table

    def as_rows(self) -> list[dict[str, Any]]:
        """Return a row for each combination and ranking, with the same keys in each."""
        best, best_ranking = self.chosen()
        return [
            {
                **found.point.values,
                "ranking": ranking,
                **{metric: round(found.scores[ranking][metric], DIGITS) for metric in self.higher_is_better},
                "hypotheses": round(found.hypotheses, 4),
                "strings": round(found.strings, 4),
                "unfinished": found.unfinished[ranking],
                "seconds": round(found.seconds, 3),
                "chosen": found is best and ranking == best_ranking,
            }
            for found in self.scored
            for ranking in RANKINGS
        ]

    def as_tsv(self) -> str:
        """Return `as_rows` as tab-separated lines under a header line."""
        rows = self.as_rows()
        lines = [list(rows[0]), *([value_text(value) for value in row.values()] for row in rows)]
        return "".join("\t".join(line) + "\n" for line in lines)
