"""The picture of the layers, read off the `import` statements: imports point down, and text work never needs torch."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "indigo_cli"

# From the top; an import may stay in its layer or go down.
LAYERS = (
    {"cli", "__main__", "commands", "api"},
    {"engine", "recipe", "demo"},
    {"decoding"},
    {"models"},
    {"nn"},
    {"data", "tasks", "orders", "metrics"},
    {"core", "errors", "__init__"},
)
# `indigo_cli.load` stands in the package itself, and what it opens on top; it is imported when it is called.
FRONT_DOOR = ("__init__.py", "api")
# Torch may be imported here and above only.
TORCH_LAYERS = {"api", "engine", "recipe", "demo", "decoding", "models", "nn"}
TORCH_FILES = {"data/batch.py", "data/collate.py", "data/batching.py", "data/order_tree.py"}
# What importing a command's module may load: `--help` imports all of them.
LIGHT = {"typer", "indigo_cli.errors", "indigo_cli.core.console", "indigo_cli.core.format", "indigo_cli"}

FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer_of(part: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if part in layer)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, top_only: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of each import; `from a import b` may mean the module a.b, so both are given."""
    for node in ast.iter_child_nodes(tree) if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def own_part(module: str) -> str | None:
    """Return which part of the package an import reaches; None for other packages."""
    first, *rest = module.split(".")
    if first != "indigo_cli":
        return None
    if rest and ((PACKAGE / rest[0]).is_dir() or (PACKAGE / f"{rest[0]}.py").is_file()):
        return rest[0]
    return "__init__"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    own = layer_of(part_of(path))
    wrong = [
        f"{name_of(path)}:{line} imports {module}"
        for line, module in imports(parse(path))
        if (part := own_part(module)) is not None and layer_of(part) < own and (name_of(path), part) != FRONT_DOOR
    ]
    assert not wrong


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_torch_stays_above_text(path: Path) -> None:
    if part_of(path) in TORCH_LAYERS or name_of(path) in TORCH_FILES:
        return
    assert not [(line, module) for line, module in imports(parse(path)) if module.split(".")[0] == "torch"]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("commands/*.py")), ids=name_of)
def test_a_command_loads_nothing_heavy_before_it_runs(path: Path) -> None:
    import sys

    for line, module in imports(parse(path), top_only=True):
        top = module.split(".")[0]
        light = top in sys.stdlib_module_names or any(
            module == name or module.startswith(f"{name}.") for name in LIGHT - {"indigo_cli"}
        )
        light = light or own_part(module) in ("__init__", "commands")
        assert light, f"{name_of(path)}:{line} imports {module}"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("decoding/*.py")), ids=name_of)
def test_search_knows_the_protocol_never_a_model(path: Path) -> None:
    reached = {module for _, module in imports(parse(path)) if module.startswith("indigo_cli.models")}
    assert all(module.startswith("indigo_cli.models.protocol") for module in reached)


def test_the_check_itself_sees_a_wrong_import() -> None:
    tree = ast.parse("def f():\n    from indigo_cli.engine import fit\n")
    assert list(imports(tree)) == [(2, "indigo_cli.engine"), (2, "indigo_cli.engine.fit")]
    assert layer_of("engine") < layer_of("core")


def test_every_file_stands_in_a_layer() -> None:
    parts = {part_of(path) for path in FILES}
    assert parts <= set().union(*LAYERS)
    assert sum(len(layer) for layer in LAYERS) == len(set().union(*LAYERS))
