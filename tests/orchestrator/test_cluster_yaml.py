"""cluster.yaml is one that `ray up` accepts, as it is and with its commented workers. Offline, starts nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PATH = Path(__file__).parents[2] / "cluster.yaml"


def validated(text: str) -> dict[str, Any]:
    # The raw JSON schema is wrong both ways; this is what `ray up` itself does first. Private, hence imported here.
    from ray.autoscaler._private.util import prepare_config, validate_config

    raw = yaml.safe_load(text)
    assert raw["cluster_name"], "prepare_config fills a missing name in"
    config: dict[str, Any] = prepare_config(raw)
    validate_config(config)
    return config


def with_workers(text: str) -> str:
    text = re.sub(r"^  worker_ips: \[\]\n  # (worker_ips: .*)$", r"  \1", text, flags=re.MULTILINE)
    return re.sub(r"^(min_workers: 0\nmax_workers: 0\n)# (.*)\n# (.*)$", r"\2\n\3", text, flags=re.MULTILINE)


def test_one_box() -> None:
    config = validated(PATH.read_text())
    assert config["provider"]["type"] == "local"
    assert config["provider"]["worker_ips"] == []
    assert config["max_workers"] == 0
    assert all("--num-gpus=4" in config[key][-1] for key in ("head_start_ray_commands", "worker_start_ray_commands"))


def test_four_boxes() -> None:
    text = with_workers(PATH.read_text())
    config = validated(text)
    assert len(config["provider"]["worker_ips"]) == 3
    assert config["max_workers"] == yaml.safe_load(text)["min_workers"] == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("provider:", "provder:"),
        ("type: local", "type: lokal"),
        ("max_workers: 0", "max_workers: -1"),
        ("setup_commands:", "setup_comands:"),
    ],
)
def test_the_validation_sees_mistakes(old: str, new: str) -> None:
    text = PATH.read_text()
    assert old in text
    with pytest.raises(Exception):  # noqa: B017, PT011 (jsonschema's and Ray's own, by mistake)
        validated(text.replace(old, new, 1))
