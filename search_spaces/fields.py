"""Field types shared by everything a user writes in YAML, and pydantic's complaints in our words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from search_spaces.errors import nearest

T = TypeVar("T")


def finite(value: Any) -> bool:
    """Whether ``value`` is a number that a float can hold; True and False are none."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False


def _whole(value: Any) -> int:
    # bool is an int to Python and "3" is one to pydantic; in a space both are slips.
    if not finite(value) or value % 1:
        raise ValueError("should be a whole number")
    return int(value)


def _number(value: Any) -> float:
    if not finite(value):
        raise ValueError("should be a finite number")
    return float(value) + 0.0  # -0.0 becomes 0.0


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("should be a word")
    return value


def _unique(values: tuple[T, ...]) -> tuple[T, ...]:
    twice = sorted({repr(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"given twice: {', '.join(twice)}")
    return values


def _listed(value: Any) -> Any:
    # A single value is a list of one; a missing value (`seeds:` with nothing behind it) is an empty list.
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def one_of(allowed: Callable[[], Iterable[str]], what: str) -> AfterValidator:
    """A validator that accepts the names of ``allowed()`` and otherwise names the nearest of them."""

    def check(value: str) -> str:
        names = list(allowed())
        if value not in names:
            raise ValueError(f"unknown {what} {value!r}: {nearest(value, names)}")
        return value

    return AfterValidator(check)


Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, BeforeValidator(_number)]
Word = Annotated[str, BeforeValidator(_text)]
Axis = Annotated[tuple[T, ...], BeforeValidator(_listed), AfterValidator(_unique)]
FilledAxis = Annotated[tuple[T, ...], BeforeValidator(_listed), Field(min_length=1), AfterValidator(_unique)]


def complaints(error: ValidationError, model: type[BaseModel], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What pydantic found, as (key, sentence) pairs: the key is dotted, the sentence says what is allowed.

    ``given`` is what the user wrote, so that a list of one written as a single value is shown as it was written.
    """
    return [_complaint(detail, model, given) for detail in error.errors(include_url=False)]


def _complaint(detail: Any, model: type[BaseModel], given: Mapping[str, Any]) -> tuple[str, str]:
    location, kind = detail["loc"], detail["type"]
    key = ".".join(str(step) for step in location)
    if len(location) == 2 and location[1] == 0 and not isinstance(given.get(str(location[0])), list | tuple):
        key = str(location[0])
    if kind == "extra_forbidden":
        return key, f"unknown key, {nearest(str(location[-1]), _keys_at(model, location[:-1]))}"
    if kind == "missing":
        return key, "missing"
    if kind == "too_short":
        return key, "empty: give at least one"
    if kind == "model_type":
        return key, f"should be keys and values, got {detail['input']!r}"
    if kind == "literal_error":
        names = [name.strip("' ") for name in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return key, f"unknown value {detail['input']!r}: {nearest(str(detail['input']), names)}"
    if kind == "value_error":
        sentence = str(detail["ctx"]["error"])
        shown = f", got {detail['input']!r}" if sentence.startswith("should") else ""
        return key, sentence + shown
    sentence = detail["msg"].removeprefix("Input ")
    return key, f"{sentence}, got {detail['input']!r}"


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    for step in location:
        annotation = model.model_fields[str(step)].annotation
        for inner in (annotation, *get_args(annotation)):  # a model, or a model or None
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                model = inner
                break
    return list(model.model_fields)
