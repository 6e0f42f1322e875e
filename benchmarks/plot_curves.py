"""Draw the losses of runs: python benchmarks/plot_curves.py OUT.png LOG.jsonl...  (needs the extra `plot`)."""

import json
import sys
from pathlib import Path

from indigo_cli.engine.plot import new_figure, save_png


def main() -> None:
    """Read the logs and write one picture."""
    output, *logs = map(Path, sys.argv[1:])
    figure = new_figure()
    axes = figure.add_subplot()
    for path in logs:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        train = [(row["step"], row["loss"]) for row in rows if "split" not in row]
        valid = [(row["step"], row["loss"]) for row in rows if row.get("split") == "valid"]
        (line,) = axes.plot(*zip(*train, strict=True), label=f"{path.stem}, training")
        axes.plot(*zip(*valid, strict=True), "o--", color=line.get_color(), label="validation")
    axes.set(xlabel="updates", ylabel="nats a token, all parts", ylim=(1, 6))
    axes.legend()
    save_png(figure, output, overwrite=True)


if __name__ == "__main__":
    main()
