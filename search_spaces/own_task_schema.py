"""What may stand in the YAML file of a user's own task."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from search_spaces.cards import SPLITS
from search_spaces.fields import FilledAxis, Number, Whole, Word


def label_text(value: Any) -> str:
    """A label as it is compared: 1, 1.0 and "1.0" are "1", and true, True and TRUE are "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).strip()
    if text.lower() in {"true", "false"}:
        return text.lower()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def _label(value: Any) -> str:
    if not isinstance(value, str | int | float | bool):
        raise ValueError("should be a label value")
    return label_text(value)


def _plain_name(value: str) -> str:
    if not all(char.isalnum() or char in "-_." for char in value) or value[0] in "-.":
        raise ValueError(f"should be made of letters, digits, - _ and . (got {value!r})")
    return value


Label = Annotated[str, BeforeValidator(_label)]
Labels = FilledAxis[Label]
Share = Annotated[Number, Field(gt=0, lt=1)]
Count = Annotated[Whole, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fractions(_Strict):
    """Shares of every class; they sum to 1."""

    train: Share
    validation: Share
    test: Share


class ClassCounts(_Strict):
    """Examples of each class."""

    positive: Count
    negative: Count


class SplitCounts(_Strict):
    """Examples of each class and split."""

    train: ClassCounts
    validation: ClassCounts
    test: ClassCounts


class FractionSplits(_Strict):
    """Stratified by seed, by shares."""

    by: Literal["seed"]
    fractions: Fractions

    def describe(self) -> str:
        """The rule as a sentence."""
        shares = "/".join(f"{getattr(self.fractions, name):g}" for name in SPLITS)
        return f"{shares} of each class, stratified, by seed"


class SeedCountSplits(_Strict):
    """Drawn by seed, by number of examples."""

    by: Literal["seed"]
    counts: SplitCounts

    def describe(self) -> str:
        """The rule as a sentence."""
        return "fixed numbers of each class, disjoint, drawn by seed"


class ColumnSplits(_Strict):
    """Given by a column of the table."""

    by: Literal["column"]
    column: Word
    train: Label = "train"
    validation: Label = "validation"
    test: Label = "test"

    def describe(self) -> str:
        """The rule as a sentence."""
        return f"given by the column {self.column}"


class FileSplits(_Strict):
    """Given as one table a split."""

    by: Literal["files"]
    train: Word
    validation: Word
    test: Word

    def describe(self) -> str:
        """The rule as a sentence."""
        return "one file a split"


class FolderSplits(_Strict):
    """Given as one folder a split, each with one folder per class."""

    by: Literal["folders"]
    train: Word = "train"
    validation: Word = "validation"
    test: Word = "test"

    def describe(self) -> str:
        """The rule as a sentence."""
        return "one folder a split"


SplitKind = FractionSplits | SeedCountSplits | ColumnSplits | FileSplits | FolderSplits

SPLIT_KINDS: dict[str, type[SplitKind]] = {
    "seed": FractionSplits,
    "column": ColumnSplits,
    "files": FileSplits,
    "folders": FolderSplits,
}
"""By the value of ``splits.by``; ``seed`` with ``counts`` is ``SeedCountSplits``."""


class OwnTask(_Strict):
    """The YAML file of a user's own task. Paths are relative to that file."""

    name: Annotated[Word, AfterValidator(_plain_name)]
    title: Word | None = None
    source: Word | None = None
    licence: Word | None = None
    modality: Literal["image", "text"]
    kind: Literal["table", "folder"]
    file: Word | None = None
    """Table: the .csv, .tsv or .parquet file (not with splits by files)."""
    text: Word | None = None
    """Table of texts: the column of the text."""
    text_pair: Word | None = None
    """Table of texts: the column of the second text of a pair."""
    image: Word | None = None
    """Table of images: the column of the image's path."""
    images: Word | None = None
    """Table of images: the folder those paths start from; the YAML file's own when not given."""
    folder: Word | None = None
    """Folder: where the class folders (or the split folders) lie."""
    label: Word | None = None
    """Table: the column of the label."""
    weight: Word | None = None
    """Table: the column of the confidence in each label, above 0; every example weighs the same when not given."""
    positive: Labels
    """Label values, or class folders, of the positives."""
    negative: Labels | None = None
    """The same of the negatives; every other one when not given."""
    ignore: Labels | None = None
    """Label values, or class folders, whose examples are left out."""
    image_size: Annotated[Whole, Field(ge=8, le=4096)] = 224
    """Images: pixels a side after resizing."""
    splits: SplitKind

    def describe(self) -> str:
        """The construction as half a sentence."""
        positive = ", ".join(self.positive)
        negative = ", ".join(self.negative) if self.negative else "every other label"
        return f"{positive} against {negative}"

    def inconsistencies(self) -> list[str]:
        """Keys that are missing from, or have no meaning in, a task of this kind."""
        by = self.splits.by
        needed = {"folder"} if self.kind == "folder" else {"label", self.modality}
        allowed = {"folder": {"folder"}, "table": {"label", "file", "weight"}}[self.kind]
        if self.kind == "table":
            needed |= set() if by == "files" else {"file"}
            allowed = allowed - {"file"} if by == "files" else allowed
            allowed |= {"text", "text_pair"} if self.modality == "text" else {"image", "images"}
        problems = [f"{key}: missing" for key in sorted(needed) if getattr(self, key) is None]
        for key in ("file", "text", "text_pair", "image", "images", "folder", "label", "weight"):
            if getattr(self, key) is not None and key not in allowed:
                problems.append(f"{key}: has no meaning in a {self.kind} of {self.modality}s with splits by {by}")
        if self.modality == "text" and "image_size" in self.model_fields_set:
            problems.append("image_size: has no meaning for texts")
        if self.kind == "folder" and self.modality == "text":
            problems.append("kind: a folder holds images; texts come as a table")
        if by in {"column", "files"} and self.kind == "folder":
            problems.append(f"splits.by: {by} is for tables; a folder is split by seed or folders")
        if by == "folders" and self.kind == "table":
            problems.append("splits.by: folders is for folders; a table is split by seed, column or files")
        if isinstance(self.splits, FractionSplits):
            total = sum(getattr(self.splits.fractions, name) for name in SPLITS)
            if abs(total - 1) > 1e-9:
                problems.append(f"splits.fractions: sum to {total:g}, should sum to 1")
        if isinstance(self.splits, ColumnSplits | FileSplits | FolderSplits):
            places = [getattr(self.splits, name) for name in SPLITS]
            twice = sorted({place for place in places if places.count(place) > 1})
            problems += [f"splits: {place!r} is given for two splits" for place in twice]
        both = set(self.positive) & set(self.negative or ())
        if both:
            problems.append(f"negative: also positive: {', '.join(sorted(both))}")
        used = set(self.ignore or ()) & {*self.positive, *(self.negative or ())}
        if used:
            problems.append(f"ignore: also positive or negative: {', '.join(sorted(used))}")
        if self.file is not None and not self.file.lower().endswith((".csv", ".tsv", ".parquet")):
            problems.append(f"file: should end in .csv, .tsv or .parquet, got {self.file!r}")
        return problems
