"""Equal configurations have equal ids, however they were written down."""

import hashlib
import json

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.identity import canonical, canonical_json, content_id
from search_spaces.yaml_text import parse_yaml

numbers = st.one_of(
    st.integers(min_value=-(2**53), max_value=2**53), st.floats(allow_nan=False, allow_infinity=False, width=64)
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def test_known_id():
    text = '{"a":1,"b":[0.1,null,true]}'
    assert canonical_json({"b": (0.1, None, True), "a": 1.0}) == text
    assert content_id({"b": (0.1, None, True), "a": 1.0}) == hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("one", [1, 1.0, np.int64(1), np.int32(1), np.float64(1.0), np.float32(1.0)])
def test_one_is_one(one):
    assert content_id({"x": one}) == content_id({"x": 1})
    assert content_id({"x": one}) != content_id({"x": True})


def test_zero_has_no_sign():
    assert canonical_json([-0.0, 0.0, 0]) == "[0,0,0]"


def test_numpy_scalars_are_plain():
    assert canonical({"b": np.bool_(True), "s": np.str_("a"), "f": np.float64(0.1)}) == {"b": True, "s": "a", "f": 0.1}


@given(values)
def test_json_round_trip_keeps_the_id(value):
    assert content_id(json.loads(json.dumps(value))) == content_id(value)
    assert content_id(json.loads(canonical_json(value))) == content_id(value)


@given(st.dictionaries(st.text(max_size=5), numbers, max_size=6))
def test_key_order_keeps_the_id(value):
    assert content_id(dict(reversed(value.items()))) == content_id(value)


@given(st.dictionaries(st.sampled_from("abcdef"), numbers, max_size=6))
def test_yaml_round_trip_keeps_the_id(value):
    assert content_id(parse_yaml(yaml.safe_dump(value))) == content_id(value)


@given(numbers)
def test_spelling_of_a_number_keeps_the_id(number):
    whole = float(number)
    for spelling in (repr(whole), f"{whole:.17e}", str(number)):
        assert content_id(parse_yaml(f"x: {spelling}")) == content_id({"x": number})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), np.float64("nan")])
def test_numbers_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="cannot be part of a configuration"):
        canonical({"x": [bad]})


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="set cannot be part of a configuration"):
        canonical({"x": {1, 2}})
    with pytest.raises(ValueError, match="keys must be strings, got 1"):
        canonical({1: "x"})
