"""The numbers the paper published, under this project's names.

"Pairwise AUC Optimization Needs Corrective Power": the CSV files beside this module are its tables 1, 2, 5, 6 and 9 to
14 as printed (percent, two decimals).
"""

from __future__ import annotations

from importlib.resources import files
from io import StringIO

import pandas as pd

from analysis.errors import AnalysisError
from search_spaces.errors import nearest

TABLES = {
    "binary": "tables_1_2_binary_auc.csv",
    "splits": "tables_5_6_split_sizes.csv",
    "scaling": "table_9_batch_size_scaling.csv",
    "intervention": "table_10_directional_intervention.csv",
    "multiclass": "table_11_multiclass_macro_ovo_auc.csv",
    "multilabel": "table_12_multilabel_macro_auc.csv",
    "large": "table_13_large_multiclass_auc.csv",
    "deep-auc": "table_14_deep_auc.csv",
}

TASK_NAMES = {
    "ImageNet-LT Dogs": "imagenet-lt-dogs",
    "Dog Breeds": "dog-breeds",
    "CRJ700/CRJ900": "crj700-crj900",
    "APTOS Sev./Mod.": "aptos",
    "DeepWeeds P/S": "deepweeds",
    "Apple Disease": "apple-disease",
    "Rice Disease": "rice-disease",
    "HAM10000 M/N": "ham10000",
    "GoEmotions Annoy.": "goemotions-annoyance",
    "GoEmotions Annoyance": "goemotions-annoyance",
    "GoEmotions Fear": "goemotions-fear",
    "ANLI R1 E/N": "anli-r1-en",
    "ANLI R3 C/N": "anli-r3-cn",
    "ANLI R3 E/N": "anli-r3-en",
    "SNLI E/N": "snli-high-overlap",
    "SNLI High-Overlap": "snli-high-overlap",
    "WANLI C/N": "wanli-cn",
    "WANLI E/N": "wanli-en",
}
"""The paper's names of the 16 binary tasks (two of them in two spellings) and ours."""

MODEL_NAMES = {
    "ResNet50": "resnet50",
    "DenseNet121": "densenet121",
    "DistilBERT": "distilbert-base-uncased",
    "DistilBERT-base": "distilbert-base-uncased",
    "Qwen2.5-1.5B-Instruct": "qwen2.5-1.5b-instruct",
}

SEEDS = 5
"""Seeds behind every published mean (123 to 127)."""


def published(name: str) -> pd.DataFrame:
    """One published table as printed. Raises ``AnalysisError`` for an unknown name."""
    if name not in TABLES:
        raise AnalysisError(f"unknown published table {name!r}: {nearest(str(name), TABLES)}")
    return pd.read_csv(StringIO(files("analysis.paper").joinpath(TABLES[name]).read_text(encoding="utf-8")))


def published_binary() -> pd.DataFrame:
    """Tables 1 and 2 in the form of ``analysis.select``: one row per (task, model, init, loss, mode).

    Columns: task, model, init, loss, mode, test_mean, test_sd (fractions 0..1), n, incomplete, table (1 or 2). All
    models start from pretrained weights.
    """
    printed = published("binary")
    return pd.DataFrame(
        {
            "task": printed["task"].map(TASK_NAMES),
            "model": printed["model"].map(MODEL_NAMES),
            "init": "pretrained",
            "loss": printed["loss"],
            "mode": printed["mode"],
            "test_mean": printed["mean_auc_percent"] / 100,
            "test_sd": printed["sample_std_percent"] / 100,
            "n": SEEDS,
            "incomplete": False,
            "table": printed["table"],
        }
    )


def published_deep_auc() -> pd.DataFrame:
    """Table 14 by our names: task, model, deep_auc, ours (percent)."""
    printed = published("deep-auc")
    named = printed["task_model"].str.split("\u2013", expand=True)
    names = {"task": named[0].map(TASK_NAMES), "model": named[1].map(MODEL_NAMES)}
    return pd.DataFrame({**names, "deep_auc": printed["deep_auc"], "ours": printed["ours"]})


def published_splits() -> pd.DataFrame:
    """Tables 5 and 6 by our task names: task, kind, and the sizes of each split."""
    return published("splits").assign(task=lambda frame: frame["task"].map(TASK_NAMES))
