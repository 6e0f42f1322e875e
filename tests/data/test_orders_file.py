"""Orders files: what is written is read back, and every fault has a file and a line."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.data.orders_file import OrdersRow, Parts, read_order_rows, read_orders, write_orders
from indigo_cli.errors import DataError, UsageError

HEADER = {"format": "indigo-orders", "version": 1, "order": "mine", "split": "train", "corpus": "abc"}
IDS, LENGTHS = [0, 2, 5], [3, 0, 2]


def write(path: Path, *rows: Any, header: Any = HEADER) -> Path:
    lines = [json.dumps(row) if isinstance(row, dict) else row for row in (header, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "train.mine.orders.jsonl.gz"
    rows = [
        OrdersRow(0, ((1, 2, 0), (0, 1, 2)), (-1.23456789, -2.0)),
        OrdersRow(2, ((),), (0.0,)),
        OrdersRow(5, ((1, 0),), (-0.5,)),
    ]
    write_orders(path, {"order": "mine", "split": "train", "corpus": "abc"}, rows)
    found = read_orders(path, ids=IDS, lengths=LENGTHS, split="train", corpus="abc")
    assert found.header == HEADER
    assert found.flat.tolist() == [1, 2, 0, 1, 0]
    assert found.log_probs is not None
    assert found.log_probs.tolist() == [-1.23457, 0.0, -0.5]
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        assert stream.readlines()[1] == '{"id":0,"orders":[[1,2,0],[0,1,2]],"log_probs":[-1.23457,-2.0]}\n'
    with pytest.raises(UsageError, match="exists"):
        write_orders(path, {}, rows)


def test_scores_by_part_are_written_and_read_back(tmp_path: Path) -> None:
    """Fields beside the contract's are there or not; `rank` stands beside the id that it makes unique."""
    path = tmp_path / "scores.orders.jsonl"
    rows = [
        OrdersRow(3, ((1, 0),), (-1.23456789,), parts=Parts((-1.0,), (-0.0,), (-0.23456789,)), bound=-1.23456789),
        OrdersRow(4, ((0, 1), (1, 0)), (-1.0, -2.0), parts=Parts((-1.0, -2.0), (0.0, 0.0), (None, None)), rank=1),
        OrdersRow(4, ((),), rank=2),
    ]
    write_orders(path, HEADER, rows)
    assert path.read_text("utf-8").splitlines()[1:] == [
        '{"id":3,"orders":[[1,0]],"log_probs":[-1.23457],"word_log_probs":[-1.0],"slot_log_probs":[0.0],'
        '"end_log_probs":[-0.234568],"bound":-1.23457}',
        '{"id":4,"rank":1,"orders":[[0,1],[1,0]],"log_probs":[-1.0,-2.0],"word_log_probs":[-1.0,-2.0],'
        '"slot_log_probs":[0.0,0.0],"end_log_probs":[null,null]}',
        '{"id":4,"rank":2,"orders":[[]]}',
    ]
    found = list(read_order_rows(path)[1])
    assert [(row.rank, row.bound) for row in found] == [(None, -1.23457), (1, None), (2, None)]
    assert [row.parts for row in found] == [Parts((-1.0,), (0.0,), (-0.234568,)), rows[1].parts, None]
    with pytest.raises(DataError, match="has a rank"):
        read_orders(path, ids=[3, 4], lengths=[2, 2])


def test_rows_of_a_user_may_stand_in_any_order_and_the_header_may_be_short(tmp_path: Path) -> None:
    header = {"format": "indigo-orders", "version": 1}
    path = write(
        tmp_path / "o.jsonl",
        {"id": 5, "orders": [[1, 0]]},
        "",
        {"id": 0, "orders": [[2, 1, 0]], "log_probs": [-1]},
        {"id": 2, "orders": [[]]},
        header=header,
    )
    found = read_orders(path, ids=IDS, lengths=LENGTHS, split="train", corpus="abc")
    assert found.flat.tolist() == [2, 1, 0, 1, 0]
    assert found.log_probs is None, "only some rows have them"


def test_all_orders_of_a_target_once_each_and_the_first_one_where_there_are_fewer(tmp_path: Path) -> None:
    path = write(
        tmp_path / "o.jsonl",
        {"id": 5, "orders": [[1, 0], [0, 1], [1, 0]], "log_probs": [-1, -2, -1]},
        {"id": 0, "orders": [[2, 1, 0], [2, 1, 0], [0, 1, 2], [1, 2, 0]]},
        {"id": 2, "orders": [[]]},
    )
    found = read_orders(path, ids=IDS, lengths=LENGTHS)
    assert found.orders.tolist() == [[2, 1, 0, 1, 0], [0, 1, 2, 0, 1], [1, 2, 0, 1, 0]]
    assert found.counts.tolist() == [3, 1, 2]
    assert found.scores[:, 2].tolist()[:2] == [-1.0, -2.0] and np.isnan(found.scores[2, 2])
    assert np.isnan(found.scores[:, :2]).all()
    first = read_orders(path, ids=IDS, lengths=LENGTHS, first_only=True)
    assert first.orders.tolist() == [[2, 1, 0, 1, 0]] and first.counts.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object is needed"),
        ({"orders": [[0]]}, "id must be"),
        ({"id": True, "orders": [[0]]}, "id must be"),
        ({"id": -1, "orders": [[0]]}, "id must be"),
        ({"id": 0}, "orders must be"),
        ({"id": 0, "orders": []}, "orders must be"),
        ({"id": 0, "orders": [0, 1, 2]}, "orders must be"),
        ({"id": 0, "orders": [[0, 1, 1]]}, "places token 1 twice"),
        ({"id": 0, "orders": [[0, 1, 3]]}, "outside 0..2"),
        ({"id": 0, "orders": [[0, 1, 2.0]]}, "not a whole number"),
        ({"id": 0, "orders": [[0, 1, 2], [0, 1]]}, "2 steps but the target has 3"),
        ({"id": 0, "orders": [[0, 1]]}, "2 steps but the target has 3"),
        ({"id": 0, "orders": [[0, 1, 2]], "log_probs": []}, "one number for each"),
        ({"id": 0, "orders": [[0, 1, 2]], "log_probs": ["x"]}, "not a finite number"),
        ('{"id": 0, "orders": [[0, 1, 2]], "log_probs": [NaN]}', "not a finite number"),
        ({"id": 0, "orders": [[0, 1, 2]], "log_probs": [-(10**400)]}, "not a finite number"),
        ({"id": 0, "orders": [[0, 1, 2]], "word_log_probs": [1, 2]}, "word_log_probs must be a list with one number"),
        ({"id": 0, "orders": [[0, 1, 2]], "slot_log_probs": [None]}, "slot_log_probs holds None"),
        ({"id": 0, "orders": [[0, 1, 2]], "end_log_probs": ["x"]}, "end_log_probs holds 'x'"),
        ({"id": 0, "orders": [[0, 1, 2]], "bound": True}, "bound holds True"),
        ({"id": 0, "orders": [[0, 1, 2]], "rank": 0}, "rank must be a number from 1"),
        ({"id": 1, "orders": [[0]]}, "not a kept target of split 'train'"),
        ({"id": 5, "orders": [[0, 1]]}, "id 5 stands twice"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path / "o.jsonl", {"id": 5, "orders": [[0, 1]]}, row)
    with pytest.raises(DataError, match=message) as caught:
        read_orders(path, ids=IDS, lengths=LENGTHS, split="train")
    assert f"{path}:3" in caught.value.where


def test_a_missing_row_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "o.jsonl", {"id": 0, "orders": [[0, 1, 2]]})
    with pytest.raises(DataError, match="2 of 3 targets have no order, the first is id 2"):
        read_orders(path, ids=IDS, lengths=LENGTHS)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({**HEADER, "version": 2}, "newer"),
        ({**HEADER, "format": "indigo-traces"}, "not an indigo-orders file"),
        ({**HEADER, "split": "valid"}, "orders of split 'valid', not 'train'"),
        ({**HEADER, "corpus": "xyz"}, "another corpus"),
    ],
)
def test_mix_ups_stop_at_line_one(tmp_path: Path, header: Any, message: str) -> None:
    path = write(tmp_path / "o.jsonl", header=header)
    with pytest.raises(DataError, match=message) as caught:
        read_orders(path, ids=[], lengths=[], split="train", corpus="abc")
    assert caught.value.where == f"{path}:1"


orders = st.integers(0, 8).flatmap(lambda length: st.permutations(range(length))).map(tuple)


@given(st.lists(orders, max_size=8))
def test_round_trip_of_any_orders(tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, ...]]) -> None:
    path = tmp_path_factory.mktemp("orders") / "o.jsonl"
    write_orders(path, HEADER, (OrdersRow(3 * i, (order,)) for i, order in enumerate(found)))
    ids, lengths = [3 * i for i in range(len(found))], [len(order) for order in found]
    assert read_orders(path, ids=ids, lengths=lengths).flat.tolist() == [i for order in found for i in order]
    _, rows = read_order_rows(path)
    assert [row.orders[0] for row in rows] == found


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=6))
def test_any_orders_value_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = write(
        tmp_path_factory.mktemp("fuzz") / "o.jsonl", json.dumps({"id": 0, "orders": value, "log_probs": value})
    )
    try:
        read_orders(path, ids=[0], lengths=[1])
    except DataError as error:
        assert str(path) in error.where
