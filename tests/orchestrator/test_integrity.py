"""Bytes that change are noticed, whichever they are, and good row groups of a damaged file are still good."""

from __future__ import annotations

import hashlib
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.integrity import BrokenFileError, check, serialise

SCHEMA = pa.schema([("name", pa.string()), ("value", pa.float64())])


def table(name: str, rows: int = 4) -> pa.Table:
    return pa.table({"name": [name] * rows, "value": [i / 7 for i in range(rows)]}, schema=SCHEMA)


def build(compact: bool = False) -> bytes:
    groups = [(table(name), [{"trial_id": name}]) for name in ("first", "second", "third")]
    return serialise(groups, SCHEMA, metadata={"colour": "blue"}, compact=compact)


@pytest.mark.parametrize("compact", [False, True])
def test_a_file_is_ordinary_parquet_with_one_row_group_per_table(compact: bool) -> None:
    data = build(compact)
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.metadata.num_row_groups == 3
    assert file.metadata.metadata[b"colour"] == b"blue"
    assert file.read().equals(pa.concat_tables([table("first"), table("second"), table("third")]))
    groups = check(data)
    assert [(group.number, group.intact) for group in groups] == [(0, True), (1, True), (2, True)]
    assert [group.trials[0]["trial_id"] for group in groups] == ["first", "second", "third"]


def test_the_digest_is_the_sha256_of_the_footer_with_zeros_in_its_place() -> None:
    data = build()
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata.metadata
    digest = metadata[b"aucsweep.digest"].removeprefix(b"sha256:")
    index = json.loads(metadata[b"aucsweep.index"])
    start = 4
    for entry in index:
        assert hashlib.sha256(data[start : start + entry["length"]]).hexdigest() == entry["sha256"]
        start += entry["length"]
    footer = data[start:]
    assert footer.count(digest) == 1
    assert hashlib.sha256(footer.replace(digest, b"0" * 64)).hexdigest().encode() == digest


def test_the_same_tables_give_the_same_bytes() -> None:
    assert build() == build()


def test_every_flipped_bit_is_noticed_and_blamed_on_its_group() -> None:
    data = build()
    index = json.loads(pq.ParquetFile(io.BytesIO(data)).metadata.metadata[b"aucsweep.index"])
    bounds = [4]
    for entry in index:
        bounds.append(bounds[-1] + entry["length"])
    for at in range(len(data)):
        for bit in (0, 7):
            damaged = data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
            if 4 <= at < bounds[-1]:
                hit = max(number for number, start in enumerate(bounds) if start <= at)
                assert [group.intact for group in check(damaged)] == [number != hit for number in range(3)], at
            else:
                with pytest.raises(BrokenFileError):
                    check(damaged)


def test_every_truncation_is_noticed() -> None:
    data = build()
    for length in range(len(data)):
        with pytest.raises(BrokenFileError):
            check(data[:length])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"PAR1", "truncated"),
        (b"PAR1PAR1PAR1", "truncated"),
        (b"hello world, hello world", "not a Parquet file"),
        (b"PAR1\x00\x00\x00\x00PAR1", "no digest"),
    ],
)
def test_other_bytes(data: bytes, reason: str) -> None:
    with pytest.raises(BrokenFileError, match=reason):
        check(data)


def test_parquet_of_somebody_else() -> None:
    sink = io.BytesIO()
    pq.write_table(table("x"), sink)
    with pytest.raises(BrokenFileError, match="no digest"):
        check(sink.getvalue())


def test_our_file_rewritten_by_another_tool_is_not_trusted() -> None:
    # Parquet tools copy key-value metadata along, here with the schema: the digest no longer fits the bytes.
    file = pq.ParquetFile(io.BytesIO(build()))
    changed = pa.table({"name": ["first"], "value": [0.5]}).replace_schema_metadata(file.metadata.metadata)
    sink = io.BytesIO()
    pq.write_table(changed, sink)
    with pytest.raises(BrokenFileError):
        check(sink.getvalue())


def test_a_file_without_groups() -> None:
    assert check(serialise([], SCHEMA, metadata={}, compact=False)) == ()


def test_an_empty_table_is_one_group() -> None:
    data = serialise([(SCHEMA.empty_table(), [])], SCHEMA, metadata={}, compact=True)
    assert all(group.intact for group in check(data))
    assert pq.read_table(io.BytesIO(data)).num_rows == 0
