"""Figures as functions that draw on a matplotlib ``ax``, with one colour per loss throughout.

This is the only module that imports matplotlib, and it never opens a window: ``new_figure`` uses the Agg canvas.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis.load import Source, as_runs
from analysis.matched import INITS, MatchedGain
from analysis.names import loss_colours, loss_title, order_losses, order_settings
from analysis.scores import Calibration
from analysis.selection import CONFIGURATION, select

INK = "#123456"
"""Colour of axes, text and CE: dark on paper; the report turns exactly this value into the page's text colour."""

FAINT = "#8a8a8a"
DIRECT_STYLE = (0, (4, 2))


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of ``width`` x ``height`` inches and its axes in reading order, sharing both scales."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return figure, [ax for row in axes for ax in row]


def gain_figure(gains: pd.DataFrame, ax: Axes) -> None:
    """Warm-up gain in percentage points: one row per task and model, one colour per loss.

    ``gains`` is the frame of ``warmup_gain``. The large dot is the gain of the selected configurations, the small ones
    are the per-seed differences; a hollow dot marks a setting that lacks seeds. Settings without a gain are left out.
    """
    shown = gains[gains["gain"].notna()]
    losses = order_losses(shown["loss"])
    colours = loss_colours(losses)
    settings = order_settings(shown[["model", "init", "task"]].itertuples(index=False, name=None))
    per_seed = [column for column in shown.columns if column.startswith("gain_seed_")]
    offsets = dict(zip(losses, np.linspace(-0.32, 0.32, max(2, len(losses))), strict=False))
    offsets = offsets if len(losses) > 1 else dict.fromkeys(losses, 0.0)
    for row in shown.to_dict("records"):
        y = settings.index((row["model"], row["init"], row["task"])) + offsets[row["loss"]]
        colour = colours[row["loss"]]
        seeds = [100 * float(row[column]) for column in per_seed if pd.notna(row[column])]
        ax.plot(seeds, [y] * len(seeds), "o", color=colour, markersize=4.5, alpha=0.5, markeredgewidth=0, zorder=2)
        (large,) = ax.plot(100 * row["gain"], y, "o", color=colour, markersize=7, markeredgewidth=1.5, zorder=3)
        if row["incomplete"]:
            large.set_markerfacecolor("none")
    ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    for line in range(1, len(settings)):
        ax.axhline(line - 0.5, color=FAINT, linewidth=0.4, alpha=0.5, zorder=0)
    several = {(model, init) for model, init, _ in settings}
    labels = [f"{task}\n{model} ({init})" if len(several) > 1 else task for model, init, task in settings]
    ax.set_yticks(range(len(settings)), labels)
    ax.set_ylim(max(1, len(settings)) - 0.5, -0.5)
    ax.set_xlabel("warm-up gain (percentage points of test AUC)")
    handles = [Line2D([], [], color=colours[loss], marker="o", linestyle="", label=loss_title(loss)) for loss in losses]
    if handles:
        columns = min(5, len(handles))
        ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False)
    _style(ax)


def matched_figure(found: MatchedGain, ax: Axes) -> None:
    """Warm-up gain from random and from pretrained weights, in percentage points.

    A thin line joins the two gains of one setting, in its loss's colour, hollow where seeds are lacking. The bar beside
    each initialisation runs from the first to the third quartile over the settings; the diamond is their mean.
    """
    losses = order_losses(found.pairs["loss"])
    colours = loss_colours(losses)
    for row in found.pairs.to_dict("records"):
        gains = [100 * float(row[init]) for init in INITS]
        face = "none" if row["incomplete"] else colours[row["loss"]]
        ax.plot((0, 1), gains, "o-", color=colours[row["loss"]], linewidth=1.1, markersize=6, markerfacecolor=face)
    for row in found.summary.to_dict("records"):
        x = (-0.22, 1.22)[INITS.index(row["init"])]
        ax.plot((x, x), (100 * row["q1"], 100 * row["q3"]), color=FAINT, linewidth=4, solid_capstyle="butt")
        ax.plot(x, 100 * row["mean"], "D", color=INK, markersize=6)
    ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
    ax.set_xticks((0, 1), INITS)
    ax.set_xlim(-0.5, 1.5)
    ax.set_ylabel("warm-up gain (percentage points of test AUC)")
    handles = [Line2D([], [], color=colours[loss], marker="o", label=loss_title(loss)) for loss in losses]
    handles += [Line2D([], [], color=INK, marker="D", linestyle="", label="mean")]
    handles += [Line2D([], [], color=FAINT, linewidth=4, label="quartiles")]
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(4, len(handles)), frameon=False)
    _style(ax)
    ax.grid(visible=False, axis="x")


def matched_sheet(found: MatchedGain) -> Figure:
    """``matched_figure`` on a figure of its own."""
    figure, axes = new_figure(6.4, 4.4)
    matched_figure(found, axes[0])
    return figure


def save_matched_figure(found: MatchedGain, path: str | Path) -> Path:
    """Write ``matched_sheet`` to ``path`` (the ending names the format: png, svg, pdf) and return the path."""
    target = Path(path)
    matched_sheet(found).savefig(target, dpi=160, facecolor="white")
    return target


def learning_curves(curves: pd.DataFrame, loss: str, ax: Axes) -> None:
    """Validation AUC (percent) by epoch of one pairwise loss: direct dashed, warm-up solid, CE thin for comparison.

    ``curves`` is the frame of ``mean_curves`` for one (task, model, init). The band is one sample standard deviation
    over seeds; the dotted vertical line is where the selected warm-up run switches from CE to the pairwise loss.
    """
    colour = loss_colours([loss]).get(loss, INK)
    for mode, style, width in (("ce", "-", 1.1), ("direct", DIRECT_STYLE, 1.8), ("warmup", "-", 1.8)):
        line = curves[(curves["mode"] == mode) & ((curves["loss"] == loss) | (mode == "ce"))]
        for _, one in line.groupby("loss"):
            tint = INK if mode == "ce" else colour
            epochs, middle = one["epoch"].to_numpy(float), 100 * one["mean"].to_numpy(float)
            ax.plot(epochs, middle, linestyle=style, color=tint, linewidth=width, marker="o", markersize=2.5, zorder=3)
            if mode != "ce":
                band = 100 * one["sd"].fillna(0.0).to_numpy(float)
                ax.fill_between(epochs, middle - band, middle + band, color=tint, alpha=0.13, linewidth=0)
            if mode == "warmup":
                ax.axvline(float(one["switch"].iloc[0]), color=FAINT, linestyle=":", linewidth=1)
    ax.set_title(loss_title(loss), fontsize=10)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    _style(ax)


def curve_legend(figure: Figure) -> None:
    """The legend of a sheet of ``learning_curves``: what the line styles mean."""
    handles = [
        Line2D([], [], color=INK, linewidth=1.1, label="CE"),
        Line2D([], [], color=FAINT, linestyle=DIRECT_STYLE, linewidth=1.8, label="direct"),
        Line2D([], [], color=FAINT, linewidth=1.8, label="warm-up"),
        Line2D([], [], color=FAINT, linestyle=":", linewidth=1, label="switch from CE"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, labelcolor=INK)


def mean_curves(source: pd.DataFrame | Source, selected: pd.DataFrame | None = None) -> pd.DataFrame:
    """Validation AUC by epoch of the selected configurations, mean and sample sd over seeds (fractions 0..1).

    Columns: task, model, init, loss, mode, epoch, mean, sd, n, switch (epochs of CE before the pairwise phase).
    """
    runs = as_runs(source)
    chosen = select(runs) if selected is None else selected
    columns = ["task", "model", "init", "loss", "mode", "epoch", "mean", "sd", "n", "switch"]
    if chosen.empty:
        return pd.DataFrame(columns=columns)
    known = runs.assign(**{key: runs[key] if key in runs.columns else "" for key in ("settings", "loss_params")})
    keys = [key for key in CONFIGURATION if key in runs.columns]
    rows = known.merge(chosen[keys], on=keys, how="inner").drop_duplicates(["trial_id", "mode", "loss", "epoch"])
    by = ["task", "model", "init", "loss", "mode", "epoch"]
    grouped = rows.groupby(by, sort=True)
    curves = grouped.agg(mean=("val_auc", "mean"), sd=("val_auc", "std"), n=("val_auc", "size")).reset_index()
    switches = chosen.assign(switch=chosen["warmup_ratio"] * chosen["epochs"])[[*by[:-1], "switch"]]
    return curves.merge(switches, on=by[:-1])[columns]


def curves_sheet(curves: pd.DataFrame) -> Figure:
    """One panel of ``learning_curves`` per pairwise loss of one (task, model, init), or CE alone without any."""
    losses = order_losses(curves.loc[curves["mode"] != "ce", "loss"]) or order_losses(curves["loss"])
    columns = min(3, len(losses))
    rows = -(-len(losses) // columns)
    figure, axes = new_figure(1.2 + 2.9 * columns, 0.9 + 2.2 * rows, rows, columns)
    for loss, ax in zip(losses, axes, strict=False):
        learning_curves(curves, loss, ax)
    for ax in axes[len(losses) :]:
        ax.set_visible(False)
    for index, ax in enumerate(axes[: len(losses)]):
        ax.tick_params(labelbottom=True)
        if index % columns == 0:
            ax.set_ylabel("validation AUC (%)")
    figure.supxlabel("epoch", color=INK, fontsize=10)
    curve_legend(figure)
    return figure


def gain_sheet(gains: pd.DataFrame) -> Figure:
    """``gain_figure`` on a figure whose height fits the number of settings."""
    settings = len(gains.loc[gains["gain"].notna(), ["model", "init", "task"]].drop_duplicates())
    figure, axes = new_figure(7.2, 1.3 + (1.4 if settings < 2 else 0.8 * settings))
    gain_figure(gains, axes[0])
    return figure


def save_gain_figure(gains: pd.DataFrame, path: str | Path) -> Path:
    """Write ``gain_sheet`` to ``path`` (the ending names the format: png, svg, pdf) and return the path."""
    target = Path(path)
    gain_sheet(gains).savefig(target, dpi=160, facecolor="white")
    return target


def reliability_figure(found: Calibration, ax: Axes) -> None:
    """Observed share of positives against predicted probability on the test split, before and after calibration.

    One dot per bin, its area growing with the number of examples; on the diagonal, probabilities are right. "Before"
    reads the raw score as a logit.
    """
    ax.plot((0, 1), (0, 1), color=FAINT, linewidth=0.8, linestyle=":", zorder=1)
    parts = ((found.before, "before", FAINT, DIRECT_STYLE), (found.after, f"after ({found.method})", INK, "-"))
    for shown, name, colour, style in parts:
        label = f"{name}, expected error {100 * shown.expected_error:.1f} points"
        ax.plot(shown.predicted, shown.observed, linestyle=style, color=colour, linewidth=1.4, label=label, zorder=2)
        sizes = 8 + 60 * np.asarray(shown.counts) / sum(shown.counts)
        ax.scatter(shown.predicted, shown.observed, s=sizes, color=colour, zorder=3)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("predicted probability of the positive class")
    ax.set_ylabel("observed share of positives")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    _style(ax)


def _style(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(INK)
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(axis="both", color=FAINT, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        text.set_color(INK)
    legend = ax.get_legend()
    for text in legend.get_texts() if legend else ():
        text.set_color(INK)
