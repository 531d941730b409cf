"""What a sweep's results mean: selection, warm-up gain, matched comparisons, tables, figures and the report.

Everything takes a store (path, URI or open store) or the frame of ``load_runs``. Neither torch nor Ray is imported.
"""

from analysis.completeness import check_completeness
from analysis.gain import warmup_gain
from analysis.load import load_cells, load_runs, load_trials
from analysis.matched import PAPER_SETTINGS, matched_gain
from analysis.selection import configurations, run_results, select
from analysis.tables import gain_table, main_table, matched_table

__all__ = [
    "PAPER_SETTINGS",
    "check_completeness",
    "configurations",
    "gain_table",
    "load_cells",
    "load_runs",
    "load_trials",
    "main_table",
    "matched_gain",
    "matched_table",
    "run_results",
    "select",
    "warmup_gain",
]
