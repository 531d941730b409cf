"""``-o key=value``: typed like YAML, for every part unless one is named."""

import pytest

from search_spaces.errors import SpaceError
from search_spaces.expand import expand
from search_spaces.overrides import parse_override
from search_spaces.space import load_space


def problems(source, *overrides):
    with pytest.raises(SpaceError) as caught:
        load_space(source, overrides)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("seeds=1,2,3", (1, 2, 3)),
        ("seeds=7", (7,)),
        ("seeds=[1, 2]", (1, 2)),
        ("seeds=1.0,2e0", (1, 2)),
        ("margins=0.5", (0.5,)),
        ("margins=5e-1, 1", (0.5, 1.0)),
        ("losses=ce,hinge", ("ce", "hinge")),
        ("parts.0.seeds=4", (4,)),
    ],
)
def test_axes(text, value):
    space = load_space("smoke", [text, "losses=ce,hinge"] if "margins" in text else [text, "losses=ce,square"])
    if text.startswith("losses"):
        space = load_space("smoke", [text])
    axis = text.split("=")[0].removeprefix("parts.0.")
    assert getattr(space.parts[0], axis) == value


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("settings.epochs=3", "epochs", 3),
        ("settings.epochs=3.0", "epochs", 3),
        ("settings.learning_rate=1e-4", "learning_rate", 1e-4),
        ("settings.max_grad_norm=null", "max_grad_norm", None),
        ("settings.max_grad_norm=1", "max_grad_norm", 1.0),
        ("settings.optimizer=sgd", "optimizer", "sgd"),
        ("settings={epochs: 5, batch_size: 64}", "epochs", 5),
        ("parts.0.settings.epochs=3", "epochs", 3),
    ],
)
def test_settings(text, field, value):
    changed = getattr(load_space("smoke", [text]).parts[0].settings, field)
    assert changed == value
    assert type(changed) is type(value)


def test_later_overrides_win_and_are_recorded():
    space = load_space("smoke", ["seeds=1", "seeds=2", "name=mine", "description=two words"])
    assert space.parts[0].seeds == (2,)
    assert (space.name, space.description) == ("mine", "two words")
    assert space.given == {
        "source": "smoke",
        "space": load_space("smoke").given["space"],
        "overrides": ["seeds=1", "seeds=2", "name=mine", "description=two words"],
    }


def test_every_part_or_one_part():
    space = load_space(
        "paper", ["seeds=1", "parts.1.seeds=[8, 9]", "parts.2.settings.epochs=1", "settings.weight_decay=0"]
    )
    assert [part.seeds for part in space.parts] == [(1,), (8, 9), (1,), (1,), (1,)]
    assert [part.settings.epochs for part in space.parts] == [20, 10, 1, 4, 4]
    assert {part.settings.weight_decay for part in space.parts} == {0.0}
    assert space.parts[0].settings.learning_rate == 0.05


@pytest.mark.parametrize(
    "overrides",
    [
        ["parts.1=null", "parts.2=null"],
        ["parts.2=null", "parts.1=null"],
        ["parts.1=null", "parts.1.seeds=1", "parts.2=~", "parts.2=null"],
    ],
)
def test_parts_can_be_left_out(overrides):
    whole, reduced = load_space("extensions-offline"), load_space("extensions-offline", overrides)
    assert reduced.parts == whole.parts[:1]
    assert reduced.given["overrides"] == overrides


def test_numbers_of_parts_are_those_of_the_file():
    overrides = ["parts.0=null", "parts.2.seeds=7", "parts.1.seeds=8"]
    space = load_space("extensions-offline", overrides)
    assert [(part.tasks[0], part.seeds) for part in space.parts] == [("reuters-r8", (8,)), ("kaomoji-16", (7,))]
    assert problems("extensions-offline", "parts.0=null", "parts.2.seeds=") == (
        "parts.2.seeds: empty: give at least one",
    )


def test_a_part_that_is_left_out_needs_nothing(tmp_path):
    (tmp_path / "two.yaml").write_text(
        "regime: smoke\nmodels: [plain-mlp]\ninits: [random]\nlosses: [ce]\nseeds: [1]\n"
        "parts:\n  - tasks: [mnist-8-low-shot]\n  - tasks: [missing.yaml]\n"
    )
    assert load_space(tmp_path / "two.yaml", ["parts.1=null"]).parts[0].tasks == ("mnist-8-low-shot",)


@pytest.mark.parametrize(
    ("text", "name", "phase", "field", "value"),
    [
        ("phases.curriculum.0.margin=2", "curriculum", 0, "margin", (2.0, 2.0)),
        ("phases.curriculum.0.margin.from=0.5", "curriculum", 0, "margin", (0.5, 1.0)),
        ("phases.curriculum.0.loss=hinge", "curriculum", 0, "loss", "hinge"),
        ("phases.soft-switch.0.share=0.6", "soft-switch", 0, "share", 0.6),
        ("phases.pair-budget.0.pairs.budget=4", "pair-budget", 0, "pairs", {"budget": 4}),
        ("phases.soft-switch.1.pairs.budget=4", "soft-switch", 1, "pairs", {"budget": 4}),
        ("phases.curriculum.0={loss: hinge}", "curriculum", 0, "margin", (1.0, 1.0)),
        ("parts.0.phases.curriculum.0.ce=0.1", "curriculum", 0, "ce", (0.1, 0.1)),
    ],
)
def test_one_phase(text, name, phase, field, value):
    space, before = load_space("phases", [text]), load_space("phases")
    changed = getattr(space.parts[0].phases[name][phase], field)
    assert (changed.model_dump(exclude_defaults=True) if field == "pairs" else changed) == value
    others = [listed for listed in before.parts[0].phases if listed != name]
    assert all(space.parts[0].phases[listed] == before.parts[0].phases[listed] for listed in others)
    assert space.given["space"] == before.given["space"]


def test_phases_of_one_part_or_of_those_that_have_them(tmp_path):
    (tmp_path / "two.yaml").write_text(
        "regime: smoke\ntasks: [mnist-8-low-shot]\nmodels: [plain-mlp]\ninits: [random]\nseeds: [1]\n"
        "warmup_ratios: [0]\nmargins: [0.5]\nphases: {v0.5: [{loss: hinge}], v0: [{loss: square}]}\n"
        "losses: [v0.5]\nparts: [{}, {phases: {mine: [{loss: hinge}]}}]\n"
    )

    def phases(*overrides):
        return [part.phases for part in load_space(tmp_path / "two.yaml", overrides).parts]

    assert [part["v0.5"][0].ce[0] for part in phases("phases.v0.5.0.ce=0.1")] == [0.1, 0.1]
    assert [part["v0.5"][0].ce[0] for part in phases("parts.1.phases.v0.5.0.ce=0.1")] == [0.0, 0.1]
    assert [part["v0"][0].loss for part in phases("phases.v0.0.loss=hinge")] == ["hinge", "hinge"]
    assert phases("phases.mine.0.loss=square")[1]["mine"][0].loss == "square"
    assert "no list of phases has that name" in problems(tmp_path / "two.yaml", "parts.0.phases.mine.0.ce=0.1")[0]


def test_regime_can_be_replaced():
    assert load_space("quickstart", ["regime=smoke"]).parts[0].settings.batch_size == 512


def test_what_a_seed_adds():
    before, after = (expand(load_space("smoke", [f"seeds={seeds}"])).trials for seeds in ("123,124", "123,124,125"))
    assert set(before) < set(after)
    assert {after[trial].seed for trial in set(after) - set(before)} == {125}


def test_evaluation_batch_changes_no_trial():
    before, after = (expand(load_space("smoke", [f"settings.eval_batch_size={size}"])) for size in (16, 32))
    assert list(before.trials) == list(after.trials)
    assert set(after.eval_batch_sizes.values()) == {32}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sedes=1", "unknown key, did you mean seeds?"),
        ("epochs=1", "unknown key, did you mean settings.epochs?"),
        ("settings.epohcs=1", "unknown setting, did you mean epochs?"),
        ("settings=1", "settings expects keys and values"),
        ("seeds", "expected key=value"),
        ("=1", "expected key=value"),
        ("seeds.0=1", "seeds has no keys of its own"),
        ("settings.epochs.x=1", "settings has no keys of its own"),
        ("parts.7.seeds=1", "the space has parts 0 to 0"),
        ("parts.seeds=1", "expected parts.NUMBER.key=value, or parts.NUMBER=null to leave it out"),
        ("parts=[]", "expected parts.NUMBER.key=value, or parts.NUMBER=null to leave it out"),
        ("parts.0=[]", "expected parts.0.key=value, or parts.0=null to leave it out"),
        ("parts.0=null", "parts: the overrides leave out every part, keep at least one"),
        ("parts.7=null", "the space has parts 0 to 0"),
        ("phases.own.0.ce=1", "no list of phases has that name, there are none (new ones: phases={name: [...]})"),
        ("parts.0.name=x", "unknown key"),
        ("seeds=[1", "not valid YAML"),
        ("seeds=1]", "not valid YAML"),
        ("name=3", "name: should be text, got 3"),
    ],
)
def test_wrong_overrides(override, message):
    assert any(message in problem for problem in problems("smoke", override))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("phases.curiculum.0.ce=1", "no list of phases has that name, did you mean curriculum?"),
        ("phases.curriculum.1.ce=1", "curriculum has phases 0 to 0, got 1"),
        (f"phases.curriculum.{'9' * 5000}.ce=1", "curriculum has phases 0 to 0, got 9"),
        ("phases.curriculum.first.ce=1", "curriculum has phases 0 to 0, got first"),
        ("phases.curriculum.0.loss.x=1", "curriculum.0.loss is 'squared_hinge', which has no keys"),
        ("phases.curriculum.0.sharee=1", "phases.curriculum.0.sharee: unknown key, did you mean share?"),
        ("phases.curriculum=1", "phases.curriculum: expected a list of at least one phase"),
    ],
)
def test_wrong_overrides_of_phases(override, message):
    (problem,) = problems("phases", override)
    assert message in problem


def test_wrong_values_are_problems_of_the_space():
    found = problems("paper", "seeds=", "losses=ce,hing", "settings.batch_size=1", "sedes=1")
    assert [problem.split(":")[0] for problem in found] == [
        "override 'sedes=1'",
        "settings.batch_size",
        "losses.1",
        "seeds",
    ]


def test_parsed_override():
    override = parse_override("parts.2.settings.epochs = 4")
    assert (override.part, override.key, override.field, override.value) == (2, "settings", "epochs", 4)
