import hashlib
from dataclasses import replace

import numpy as np
import pytest

from search_spaces.errors import DataError
from trainables.data.examples import Index
from trainables.data.splits import DrawRule, draw_splits, stratified_counts


def index_of(labels, groups=None, parts=None):
    n = len(labels)
    return Index(
        ids=tuple(f"id{row:04d}" for row in range(n)),
        labels=np.array(labels, dtype=np.int64),
        parts=tuple(parts or [""] * n),
        groups=tuple(groups or [""] * n),
        digests=("",) * n,
    )


COUNTS = {"train": (20, 5), "validation": (10, 4), "test": (12, 6)}


@pytest.mark.parametrize(
    ("available", "published"),
    [
        ((368, 370), {"train": (258, 259), "validation": (55, 56), "test": (55, 55)}),  # Dog Breeds
        ((999, 488), {"train": (699, 342), "validation": (150, 73), "test": (150, 73)}),  # APTOS
        ((6705, 1113), {"train": (4694, 779), "validation": (1006, 167), "test": (1005, 167)}),  # HAM10000
    ],
)
def test_70_15_15_gives_the_published_counts(available, published):
    assert stratified_counts(available) == published


def test_stratified_counts_refuse_shares_that_do_not_sum():
    with pytest.raises(ValueError, match="sum to 100"):
        stratified_counts((10, 10), (70, 20, 20))


def test_draw_gives_exactly_the_counts_in_disjoint_splits():
    labels = [0] * 60 + [1] * 20
    rows = draw_splits(index_of(labels), COUNTS, 3, DrawRule(leftover=True))
    for split, counts in COUNTS.items():
        assert tuple(np.bincount(np.array(labels)[rows[split]])) == counts
        assert (np.diff(rows[split]) > 0).all()
    taken = np.concatenate(list(rows.values()))
    assert len(set(taken.tolist())) == len(taken)


def test_a_draw_is_a_function_of_seed_and_ids_not_of_row_order():
    index = index_of([0] * 60 + [1] * 20)
    order = np.random.RandomState(0).permutation(80)
    shuffled = replace(index, ids=tuple(index.ids[i] for i in order), labels=index.labels[order])

    def ids(where, seed):
        return {s: {where.ids[r] for r in rows} for s, rows in draw_splits(where, COUNTS, seed, rule).items()}

    rule = DrawRule(leftover=True)
    assert ids(index, 5) == ids(shuffled, 5)
    assert ids(index, 5) != ids(index, 6)


def test_the_order_of_a_draw_is_a_hash_of_seed_and_id():
    from trainables.seeding import stream_seed

    index = index_of([0] * 50 + [1] * 16)
    rows = draw_splits(index, COUNTS, 9, DrawRule(leftover=True))
    prefix = f"{stream_seed('split', 9)}:"
    hashed = sorted(range(50), key=lambda r: hashlib.sha256((prefix + index.ids[r]).encode()).digest())
    assert rows["test"][:12].tolist() == sorted(hashed[:12])
    assert [r for r in rows["validation"] if r < 50] == sorted(hashed[12:22])


def test_fewer_training_positives_leave_validation_and_test_alone():
    index = index_of([0] * 60 + [1] * 20)
    few = COUNTS | {"train": (20, 2)}
    rule = DrawRule(leftover=True)
    many_rows, few_rows = draw_splits(index, COUNTS, 1, rule), draw_splits(index, few, 1, rule)
    for split in ("validation", "test"):
        assert many_rows[split].tolist() == few_rows[split].tolist()
    assert set(few_rows["train"].tolist()) < set(many_rows["train"].tolist())


def test_parts_restrict_where_a_split_is_drawn_from():
    parts = ["train"] * 48 + ["test"] * 18
    labels = [0] * 36 + [1] * 12 + [0] * 12 + [1] * 6
    rule = DrawRule(parts={"train": "train", "validation": "train", "test": "test"}, leftover=True)
    rows = draw_splits(index_of(labels, parts=parts), COUNTS, 0, rule)
    assert rows["test"].tolist() == list(range(48, 66))
    assert max(rows["train"].max(), rows["validation"].max()) < 48


def test_too_few_and_too_many_examples_are_refused():
    with pytest.raises(DataError, match="test needs 6 examples of class 1, got 3"):
        draw_splits(index_of([0] * 60 + [1] * 3), COUNTS, 0, DrawRule(leftover=True))
    with pytest.raises(DataError, match=r"23 examples more .* \[18, 5\]"):
        draw_splits(index_of([0] * 60 + [1] * 20), COUNTS, 0, DrawRule())


def test_whole_groups_stay_together_and_nothing_is_lost():
    # 30 groups of one, 10 of two, 4 of three, each of one class.
    sizes = [1] * 30 + [2] * 10 + [3] * 4
    groups, labels = [], []
    for number, size in enumerate(sizes):
        groups += [f"g{number}"] * size
        labels += [int(number % 3 == 0)] * size
    total = np.bincount(labels)
    counts = {"test": (7, 4), "validation": (6, 3)}
    counts["train"] = (int(total[0]) - 13, int(total[1]) - 7)
    for seed in range(20):
        rows = draw_splits(index_of(labels, groups), counts, seed, DrawRule(grouped=True))
        assert sum(map(len, rows.values())) == len(labels)
        homes = {split: {groups[row] for row in chosen} for split, chosen in rows.items()}
        assert not homes["train"] & homes["test"]
        assert not homes["train"] & homes["validation"]
        assert not homes["validation"] & homes["test"]


def test_groups_may_be_cut_where_leftovers_are_allowed():
    groups = [f"g{row // 10}" for row in range(100)]
    labels = [int(row % 4 == 0) for row in range(100)]
    counts = {"train": (9, 3), "validation": (8, 2), "test": (11, 5)}
    rows = draw_splits(index_of(labels, groups), counts, 2, DrawRule(grouped=True, leftover=True))
    for split in counts:
        assert tuple(np.bincount(np.array(labels)[rows[split]])) == counts[split]
    homes = [{groups[row] for row in chosen} for chosen in rows.values()]
    assert not homes[0] & homes[1]
    assert not homes[1] & homes[2]
    assert not homes[0] & homes[2]
