"""What is wrong with a space is said at once, in words that name the key, the value and what is allowed."""

import json
from pathlib import Path

import pytest
import yaml

from search_spaces.errors import SpaceError, UsageError, nearest
from search_spaces.expand import expand
from search_spaces.space import Space, load_space

GOOD = {
    "regime": "smoke",
    "tasks": ["mnist-8-low-shot"],
    "models": ["plain-mlp"],
    "inits": ["random"],
    "losses": ["ce", "hinge", "logistic"],
    "warmup_ratios": [0, 0.25],
    "margins": [0.5],
    "seeds": [1, 2],
}
TEXTS = {"regime": "nlp-distilbert", "tasks": ["aptos"], "models": ["distilbert-base-uncased"], "inits": ["pretrained"]}


def load(tmp_path: Path, **changes) -> Space:
    path = tmp_path / "space.yaml"
    path.write_text(yaml.safe_dump({**GOOD, **changes}))
    return load_space(path)


def problems(tmp_path: Path, **changes) -> tuple[str, ...]:
    with pytest.raises(SpaceError) as caught:
        load(tmp_path, **changes)
    assert isinstance(caught.value, UsageError)
    return caught.value.problems


def test_a_good_space(tmp_path):
    space = load(tmp_path, description="mine")
    assert (space.name, space.description) == ("space", "mine")
    assert space.parts[0].settings.batch_size == 512
    assert space.given["space"]["seeds"] == [1, 2]
    assert len(expand(space).trials) == 2 + 2 * 2 + 2 * 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"losses": ["ce", "sqaure"]}, "losses.1: unknown loss 'sqaure': did you mean square?"),
        ({"tasks": ["aptso"]}, "tasks.0: unknown task 'aptso': did you mean aptos?"),
        ({"tasks": "drug-review"}, "tasks: unknown task 'drug-review': did you mean drug-reviews?"),
        ({"models": ["plain-mpl"]}, "models.0: unknown model 'plain-mpl': did you mean plain-mlp?"),
        ({"regime": "smok"}, "regime: unknown regime 'smok': did you mean smoke?"),
        ({"inits": ["pretraind"]}, "inits.0: unknown init 'pretraind': did you mean pretrained?"),
        ({"inits": ["pretrained"]}, "inits: plain-mlp has no init 'pretrained' (allowed: random)"),
        ({"warmup_ratios": [0, 1.5]}, "warmup_ratios.1: should be less than 1, got 1.5"),
        ({"warmup_ratios": [-0.1]}, "warmup_ratios.0: should be greater than or equal to 0, got -0.1"),
        ({"warmup_ratios": []}, "warmup_ratios: empty, but hinge, logistic need at least one (0 is direct training)"),
        ({"margins": [-0.5]}, "margins.0: should be greater than 0, got -0.5"),
        ({"margins": [0]}, "margins.0: should be greater than 0, got 0"),
        ({"margins": [1.5]}, "margins: 1.5 is above 1, the largest difference of two sigmoid scores"),
        ({"margins": []}, "margins: empty, but hinge need at least one"),
        ({"losses": ["ce", "logistic"]}, "margins: given, but no listed loss has one (ce, logistic)"),
        ({"losses": ["ce"]}, "margins: given, but no listed loss has one (ce)"),
        ({"seeds": []}, "seeds: empty: give at least one"),
        ({"seeds": None}, "seeds: empty: give at least one"),
        ({"seeds": [1, 2, 1]}, "seeds: given twice: 1"),
        ({"margins": [0.5, 0.50]}, "margins: given twice: 0.5"),
        ({"warmup_ratios": [0, 0.0]}, "warmup_ratios: given twice: 0.0"),
        ({"losses": ["hinge", "hinge"]}, "losses: given twice: 'hinge'"),
        ({"seeds": [-1]}, "seeds.0: should be greater than or equal to 0, got -1"),
        ({"seeds": [1.5]}, "seeds.0: should be a whole number, got 1.5"),
        ({"seeds": ["one"]}, "seeds.0: should be a whole number, got 'one'"),
        ({"seeds": [True]}, "seeds.0: should be a whole number, got True"),
        ({"margins": [float("nan")]}, "margins.0: should be a finite number, got nan"),
        ({"margins": ["half"]}, "margins.0: should be a finite number, got 'half'"),
        ({"losses": [3]}, "losses.0: should be a word, got 3"),
        ({"losses": {"ce": 1}}, "losses: should be a word, got {'ce': 1}"),
        ({"sedes": [1]}, "sedes: unknown key, did you mean seeds?"),
        ({"epochs": 3}, "epochs: unknown key, did you mean settings.epochs?"),
        ({"settings": {"epohcs": 3}}, "settings.epohcs: unknown key, did you mean epochs?"),
        ({"settings": {"epochs": 0}}, "settings.epochs: should be greater than or equal to 1, got 0"),
        ({"settings": {"epochs": 1.5}}, "settings.epochs: should be a whole number, got 1.5"),
        ({"settings": {"learning_rate": 0}}, "settings.learning_rate: should be greater than 0, got 0"),
        ({"settings": {"optimizer": "adam"}}, "settings.optimizer: unknown value 'adam': did you mean adamw?"),
        ({"settings": {"positive_fraction": 1}}, "settings.positive_fraction: should be less than 1, got 1"),
        ({"settings": {"momentum": 0.9}}, "settings.momentum: AdamW has none, remove it or set it to 0 (got 0.9)"),
        ({"settings": {"batch_size": 2, "positive_fraction": 0.1}}, "settings.batch_size: a batch of 2 with"),
        ({"settings": {"accumulation": 129}}, "settings.accumulation: 129 parts of a batch with 128 positives and 384"),
        ({"settings": {"max_length": 64}}, "settings.max_length: is for texts, the tasks are images"),
        (
            {"settings": {"precision": "bfloat16-autocast"}},
            "settings.precision: bfloat16-autocast is for models with frozen weights, plain-mlp has none",
        ),
        ({"settings": [1]}, "settings: expected keys and values"),
        ({"name": 3}, "name: should be text, got 3"),
        ({"parts": []}, "parts: expected a list of at least one part"),
        ({"parts": [3]}, "parts.0: expected keys and values"),
        ({"parts": [{"lossse": ["ce"]}]}, "lossse: unknown key, did you mean losses?"),
        (TEXTS, "models: distilbert-base-uncased reads texts, aptos consists of images"),
        ({"tasks": ["aptos"]}, "models: plain-mlp fits only mnist-8-low-shot, mnist-8-low-shot-12, mnist-lt, not"),
    ],
)
def test_one_problem_each(tmp_path, changes, expected):
    assert any(problem.startswith(expected) for problem in problems(tmp_path, **changes))


def test_texts_are_not_augmented(tmp_path):
    text = {"tasks": ["drug-reviews"], "models": ["minilm-l6"], "inits": ["pretrained"]}
    found = problems(tmp_path, **text, regime="drug-reviews", settings={"augmentation": "flip"})
    assert found == ("settings.augmentation: flip is for images, the tasks are texts (set it to none)",)


def test_precisions_of_a_model_with_frozen_weights_are_different_trials(tmp_path):
    path = tmp_path / "space.yaml"
    text = "regime: drug-reviews\ntasks: drug-reviews\nmodels: minilm-l6\ninits: pretrained\nlosses: ce\nseeds: 1\n"
    path.write_text(text)
    kinds = ("float32", "bfloat16", "bfloat16-autocast")
    ids = {next(iter(expand(load_space(path, [f"settings.precision={kind}"])).trials)) for kind in kinds}
    assert len(ids) == 3


def test_missing_keys(tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text("name: nothing\n")
    with pytest.raises(SpaceError) as caught:
        load_space(path)
    missing = {problem.split(":")[0] for problem in caught.value.problems if problem.endswith("missing")}
    assert missing == {"regime", "tasks", "models", "inits", "losses", "seeds"}


def test_all_problems_are_named_at_once(tmp_path):
    found = problems(
        tmp_path,
        losses=["ce", "sqaure", "hinge"],
        margins=[-0.5, 0.5, 0.5],
        warmup_ratios=[1.5],
        tasks=["mnist", "aptos"],
        seeds=[],
        sedes=[1],
        settings={"epochs": 0, "lr": 1, "accumulation": 1000},
    )
    for key in (
        "losses.1: unknown loss 'sqaure'",
        "margins.0: should be greater than 0",
        "margins: given twice: 0.5",
        "warmup_ratios.0: should be less than 1",
        "tasks.0: unknown task 'mnist': did you mean mnist-lt",
        "models: plain-mlp fits only",
        "seeds: empty",
        "sedes: unknown key",
        "settings.epochs: should be",
        "settings.lr: unknown key",
        "settings.accumulation: 1000 parts",
    ):
        assert sum(problem.startswith(key) for problem in found) == 1, key
    assert len(found) == 11


def test_problems_of_parts_say_which(tmp_path):
    parts = [{"margins": [0.5]}, {"margins": [2]}, {"losses": ["logistic"]}]
    found = problems(tmp_path, parts=parts, seeds=[-1])
    assert found == (
        "seeds.0: should be greater than or equal to 0, got -1",
        "parts.1.margins: 2 is above 1, the largest difference of two sigmoid scores "
        "(settings.score_scale=identity compares logits)",
        "parts.2.margins: given, but no listed loss has one (logistic); remove them or set margins=[]",
    )


def test_what_belongs_to_the_whole_space_is_no_key_of_a_part(tmp_path):
    found = problems(tmp_path, parts=[{"seeds": [7]}, {"loss_files": ["gap.py"], "name": "x"}])
    assert found == (
        "parts.1.loss_files: belongs to the whole space, write it at the top",
        "parts.1.name: belongs to the whole space, write it at the top",
    )


def test_top_level_keys_are_defaults_of_the_parts(tmp_path):
    parts = [{"seeds": [7], "settings": {"epochs": 1}}, {}]
    space = load(tmp_path, parts=parts, settings={"epochs": 3, "weight_decay": 0.5})
    assert [part.seeds for part in space.parts] == [(7,), (1, 2)]
    assert [part.settings.epochs for part in space.parts] == [1, 3]
    assert [part.settings.weight_decay for part in space.parts] == [0.5, 0.5]


def test_margin_above_one_on_logits(tmp_path):
    assert load(tmp_path, margins=[2], settings={"score_scale": "identity"}).parts[0].margins == (2.0,)


def test_ce_alone_needs_neither_margins_nor_ratios(tmp_path):
    space = load(tmp_path, losses=["ce"], margins=[], warmup_ratios=[])
    assert [trial.mode for trial in expand(space).trials.values()] == ["ce", "ce"]


def test_momentum_of_the_regime_is_dropped_with_adamw(tmp_path):
    dogs = {"regime": "cv-imagenet-lt", "tasks": "imagenet-lt-dogs", "models": "resnet50", "inits": "pretrained"}
    assert load(tmp_path, **dogs).parts[0].settings.momentum == 0.9
    assert load(tmp_path, **dogs, settings={"optimizer": "adamw"}).parts[0].settings.momentum == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [("quikstart", "did you mean quickstart"), ("nothing.yaml", "there is no such file"), ("a/b", "neither a preset")],
)
def test_unknown_source(source, message):
    with pytest.raises(SpaceError, match=message):
        load_space(source)


@pytest.mark.parametrize("text", ["- 1", "", "a: [", "seeds: 1\nseeds: 2", "\xff"])
def test_file_that_is_no_space(tmp_path, text):
    path = tmp_path / "space.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SpaceError):
        load_space(path)


@pytest.mark.parametrize("name", ["quickstart", "smoke", "cv-densenet121"])
def test_resolved_form_round_trips_through_json(name):
    space = load_space(name, ["seeds=1,2"])
    again = Space.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert list(expand(again).trials) == list(expand(space).trials)
    assert again.to_dict() == space.to_dict()


def test_resolved_form_of_another_version_is_refused():
    values = load_space("smoke").to_dict()
    values["parts"][0]["losses"] = ["auc_m"]
    with pytest.raises(SpaceError, match="unknown loss 'auc_m'"):
        Space.from_dict(values)


def test_message_counts_and_lists():
    error = SpaceError("space x", ["a: wrong", "b: wrong"])
    assert str(error) == "space x: 2 problems\n  - a: wrong\n  - b: wrong"
    assert str(SpaceError("space x", ["a: wrong"])).startswith("space x: 1 problem\n")


def test_nearest_names():
    assert nearest("Hinge", ["square", "hinge"]) == "did you mean hinge? (allowed: hinge, square)"
    assert nearest("mnist", ["aptos", "mnist-8"]) == "did you mean mnist-8? (allowed: aptos, mnist-8)"
    assert nearest("zzz", ["b", "a"]) == "allowed: a, b"
