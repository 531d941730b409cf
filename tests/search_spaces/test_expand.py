"""The expansion against a naive one written from Tables 5 to 8 alone."""

import csv
import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.expand import expand
from search_spaces.space import Space, load_space

CV = ("0 .01 .025 .03 .05 .075 .10 .15 .20 .25 .30", ".1 .2 .3 .4 .5 .6 .7 .8 .9")
DISTILBERT = ("0 .01 .025 .05 .075 .10 .15 .20 .25 .30", ".1 .2 .4 .6 .7")
QWEN = ("0 .02 .04 .06 .08 .10", ".1 .2 .4 .6")
NLP = "GoEmotions Annoy.|GoEmotions Fear|ANLI R1 E/N|ANLI R3 C/N|ANLI R3 E/N|SNLI High-Overlap|WANLI C/N|WANLI E/N"
REGIMES = [  # model, tasks, epochs, batch, grid
    ("resnet50", "ImageNet-LT Dogs", 20, 128, CV),
    ("resnet50", "Dog Breeds|CRJ700/CRJ900|APTOS Sev./Mod.|DeepWeeds P/S", 10, 64, CV),
    ("densenet121", "Apple Disease|Rice Disease|APTOS Sev./Mod.|HAM10000 M/N", 10, 48, CV),
    ("distilbert-base-uncased", NLP, 4, 32, DISTILBERT),
    ("qwen2.5-1.5b-instruct", NLP, 4, 24, QWEN),
]
SEEDS = (123, 124, 125, 126, 127)
MARGIN_LOSSES = ("square", "hinge", "squared_hinge")


def naive_paper():
    with (Path(__file__).parent / "split_sizes.csv").open(newline="") as file:
        train = {row["task"]: (int(row["train_pos"]), int(row["train_neg"])) for row in csv.DictReader(file)}
    product, cells, runs = [], set(), {}
    for model, tasks, epochs, batch, (ratios, margins) in REGIMES:
        for task in tasks.split("|"):
            positives, negatives = train[task]
            total = epochs * max(math.ceil(positives / (batch // 4)), math.ceil(negatives / (batch - batch // 4)))
            for seed in SEEDS:
                product.append(total)
                cells.add((model, task, "ce", seed))
                runs[model, task, "ce", None, total, seed] = total
                for loss in (*MARGIN_LOSSES, "logistic", "exponential"):
                    for ratio in map(Fraction, ratios.split()):
                        for margin in margins.split():
                            product.append(total)
                            kept = margin if loss in MARGIN_LOSSES else None
                            cells.add((model, task, loss, ratio, kept, seed))
                            runs[model, task, loss, kept, math.floor(ratio * total + Fraction(1, 2)), seed] = total
    prefix = {}
    for (model, task, _, _, warmup, seed), _ in runs.items():
        prefix[model, task, seed] = max(prefix.get((model, task, seed), 0), warmup)
    shared = sum(prefix.values()) + sum(total - key[4] for key, total in runs.items())
    return product, cells, runs, shared


def test_paper_counts(paper):
    product, cells, runs, shared = naive_paper()
    assert paper.product == len(product) == 37200
    assert len(paper.cells) == len(cells) == 24640
    assert len(paper.trials) == len(runs) == 22465
    assert paper.updates_product == sum(product) == 91576060
    assert paper.updates_trials == sum(runs.values()) == 62719330
    assert paper.updates_with_shared_prefixes == shared == 57026485


def test_paper_cells_name_its_trials(paper):
    assert {cell.trial_id for cell in paper.cells} == set(paper.trials)
    assert len({cell.cell_id for cell in paper.cells}) == len(paper.cells)
    assert all(trial_id == trial.trial_id for trial_id, trial in paper.trials.items())
    assert set(paper.eval_batch_sizes) == set(paper.trials)
    for cell in paper.cells:
        trial = paper.trials[cell.trial_id]
        assert (cell.task, cell.model, cell.init, cell.loss, cell.margin, cell.seed) == (
            trial.task,
            trial.model,
            trial.init,
            trial.loss,
            trial.margin,
            trial.seed,
        )
        assert trial.warmup_updates == math.floor(
            Fraction(repr(cell.warmup_ratio)) * trial.total_updates + Fraction(1, 2)
        )


def test_paper_settings_of_single_trials(paper):
    dogs = [trial for trial in paper.trials.values() if trial.task == "imagenet-lt-dogs"]
    assert {trial.total_updates for trial in dogs} == {1380}
    assert {trial.switch_scale for trial in dogs if trial.mode == "warmup"} == {1.0}
    qwen = [
        trial for trial in paper.trials.values() if trial.model == "qwen2.5-1.5b-instruct" and trial.task == "wanli-en"
    ]
    total = 4 * math.ceil(10000 / 6)
    assert {(trial.total_updates, trial.lr_warmup_updates) for trial in qwen} == {(total, math.floor(total / 20 + 0.5))}
    assert {trial.precision for trial in qwen} == {"bfloat16"}


def test_meaningless_fields_are_none(paper):
    for trial in paper.trials.values():
        assert (trial.margin is None) == (trial.loss not in MARGIN_LOSSES)
        assert (trial.mode == "ce") == (trial.loss == "ce") == (trial.score_scale is None)
        assert (trial.mode == "warmup") == (trial.warmup_updates > 0) == (trial.switch_scale is not None)
        assert (trial.momentum == 0) == (trial.optimizer == "adamw")


def test_launch_order(paper):
    order = list(paper.trials.values())
    ces = sum(trial.mode == "ce" for trial in order)
    assert ces == 25 * 5
    assert all(trial.mode == "ce" for trial in order[:ces])
    assert [trial.seed for trial in order[:ces]] == [seed for seed in SEEDS for _ in range(25)]
    seeds = [trial.seed for trial in order[ces:]]
    assert seeds == sorted(seeds)
    # A sweep stopped after any whole seed has the same configurations for each of its seeds.
    per_seed = [
        {(t.task, t.model, t.loss, t.margin, t.warmup_updates) for t in order[ces:] if t.seed == seed} for seed in SEEDS
    ]
    assert all(configurations == per_seed[0] for configurations in per_seed)


def test_order_follows_the_listed_seeds():
    order = [trial.seed for trial in expand(load_space("smoke", ["seeds=9,3"])).trials.values()]
    assert order == [9, 3] + [9] * 4 + [3] * 4


def test_expansion_is_deterministic(paper):
    again = expand(load_space("paper"))
    assert list(again.trials) == list(paper.trials)
    assert again.plan_hash == paper.plan_hash
    assert expand(load_space("paper", ["seeds=123"])).plan_hash != paper.plan_hash


def test_plan_hash_ignores_the_order():
    hashes = {expand(load_space("smoke", [f"losses={losses}"])).plan_hash for losses in ("ce,square", "square,ce")}
    assert len(hashes) == 1


def test_ratio_that_rounds_to_nothing_is_the_direct_trial():
    expansion = expand(load_space("smoke", ["warmup_ratios=0,0.01", "losses=square", "seeds=1"]))
    assert [(cell.mode, cell.warmup_ratio) for cell in expansion.cells] == [("direct", 0), ("warmup", 0.01)]
    assert [trial.mode for trial in expansion.trials.values()] == ["direct"]
    assert (expansion.product, expansion.updates_product, expansion.updates_trials) == (2, 24, 12)


def test_ratio_that_rounds_to_everything_is_the_ce_trial():
    expansion = expand(load_space("smoke", ["warmup_ratios=0.99", "losses=ce,square,logistic", "seeds=1"]))
    assert len(expansion.cells) == 3
    (trial,) = expansion.trials.values()
    assert (trial.loss, trial.mode, trial.warmup_updates, trial.margin) == ("ce", "ce", 0, None)
    assert expansion.updates_with_shared_prefixes == 12


def test_prefix_without_ce_goes_to_the_longest_warmup():
    expansion = expand(load_space("smoke", ["warmup_ratios=0,0.25,0.5", "losses=square", "seeds=1"]))
    assert expansion.updates_trials == 36
    assert expansion.updates_with_shared_prefixes == 6 + 12 + 9 + 6


def test_parts_that_overlap_share_trials(tmp_path):
    raw = dict(load_space("smoke").given["space"])
    raw["parts"] = [{"losses": ["ce", "square"]}, {"losses": ["ce", "logistic"], "margins": []}]
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump(raw))
    expansion = expand(load_space(path))
    assert sum(trial.loss == "ce" for trial in expansion.trials.values()) == 2
    assert sum(cell.loss == "ce" for cell in expansion.cells) == 2
    assert len(expansion.trials) == len(expansion.cells) == 10
    assert expansion.product == 12


def test_settings_reach_the_trial():
    changes = {"epochs": 3, "weight_decay": 0.5, "max_grad_norm": 2.0, "accumulation": 4, "lr_warmup_fraction": 0.5}
    overrides = [f"settings.{key}={value}" for key, value in changes.items()]
    trial = next(iter(expand(load_space("smoke", overrides)).trials.values()))
    assert (trial.epochs, trial.weight_decay, trial.max_grad_norm, trial.accumulation) == (3, 0.5, 2.0, 4)
    assert trial.lr_warmup_updates == 9
    assert trial.augmentation == "none"


def spelled(value: float, how: str) -> object:
    return {"plain": value, "int": int(value) if value == int(value) else value, "exp": float(f"{value:e}")}[how]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=1, max_size=3, unique=True),
    st.sampled_from([1.0, 0.5, 2.0]),
    st.sampled_from(["plain", "int", "exp"]),
    st.randoms(use_true_random=False),
)
def test_ids_do_not_depend_on_spelling(tmp_path_factory, seeds, margins, decay, how, random):
    raw = dict(load_space("smoke").given["space"])
    reference = {**raw, "seeds": seeds, "margins": margins, "settings": {"weight_decay": decay, "epochs": 2}}
    other = {
        **raw,
        "seeds": [spelled(float(seed), how) for seed in seeds],
        "margins": [spelled(margin, how) for margin in margins],
        "settings": {"epochs": spelled(2.0, how), "weight_decay": spelled(decay, how)},
    }
    keys = list(other)
    random.shuffle(keys)
    folder = tmp_path_factory.mktemp("spellings")
    (folder / "a.yaml").write_text(yaml.safe_dump(reference))
    (folder / "b.yaml").write_text(json.dumps({key: other[key] for key in keys}))  # JSON is YAML too
    first, second = (expand(load_space(folder / name)) for name in ("a.yaml", "b.yaml"))
    assert list(first.trials) == list(second.trials)
    assert [cell.cell_id for cell in first.cells] == [cell.cell_id for cell in second.cells]
    assert first.plan_hash == second.plan_hash
    again = expand(Space.from_dict(json.loads(json.dumps(load_space(folder / "b.yaml").to_dict()))))
    assert list(again.trials) == list(first.trials)


def test_ids_are_frozen():
    """The ids of protocol version 1: a change here orphans every row in every store, so it must be meant."""
    trials = list(expand(load_space("smoke")).trials.values())
    golden = json.loads((Path(__file__).parent / "smoke_trials.json").read_text())
    assert [trial.trial_id for trial in trials] == [entry["trial_id"] for entry in golden]
    assert [dataclasses.replace(trial).as_dict() for trial in trials] == [entry["config"] for entry in golden]
