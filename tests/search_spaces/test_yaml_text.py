import pytest

from search_spaces.yaml_text import parse_yaml


def test_numbers_words_and_booleans():
    text = "{a: 1e-4, b: no, c: 1, d: 1.0, e: 1E3, f: true, g: -0.5, h: .5, i: 2020-01-01, j: ~, k: yes, l: +3}"
    assert parse_yaml(text) == {
        "a": 1e-4,
        "b": "no",
        "c": 1,
        "d": 1.0,
        "e": 1000.0,
        "f": True,
        "g": -0.5,
        "h": 0.5,
        "i": "2020-01-01",
        "j": None,
        "k": "yes",
        "l": 3,
    }
    assert parse_yaml("[0123, -007, 1:30, 0x1f]") == [123, -7, "1:30", "0x1f"]  # YAML 1.1: 83, -7, 90, 31
    assert isinstance(parse_yaml("1"), int)
    assert isinstance(parse_yaml("1e0"), float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: 'a' is given twice"),
        ("a: [1", "line 1"),
        ("a: b: c", "mapping values are not allowed here"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_faults_are_located(text, message):
    with pytest.raises(ValueError, match=message):
        parse_yaml(text)
