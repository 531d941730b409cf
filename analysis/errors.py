"""Errors and warnings of the analysis."""

from __future__ import annotations

from search_spaces.errors import UsageError


class AnalysisError(UsageError):
    """The data do not allow the analysis that was asked for; the message says what is in the way."""


class UnmatchedError(AnalysisError):
    """Random and pretrained runs that differ in more than their initialisation."""


class BrokenRunWarning(UserWarning):
    """Run files or trials that cannot be used; they are treated as absent and named in the message."""
