"""Tasks as data: three splits with labels and raw examples, read from packages, prepared sources or a user's files."""

from trainables.data.loader import can_load
from trainables.data.tasks import check_task, load_task, prepare_task, task_state
from trainables.data.types import Check, Prepared, Raw, Split, TaskData

__all__ = [
    "Check",
    "Prepared",
    "Raw",
    "Split",
    "TaskData",
    "can_load",
    "check_task",
    "load_task",
    "prepare_task",
    "task_state",
]
