"""Prints a review in the form that is asked for."""

from __future__ import annotations

from mcpagg.printing import give_text, show_lines
from mcpagg.problems import CompileError
from mcpagg.review.as_json import as_json, fault_as_json
from mcpagg.review.markdown import as_markdown, fault_as_markdown
from mcpagg.review.reviewing import Review
from mcpagg.review.sarif import as_sarif
from mcpagg.review.text import as_lines, as_summary

FORMS = {"json": as_json, "markdown": as_markdown, "sarif": as_sarif}

# SARIF says nothing then: without results, code scanning would take all that it knows for mended.
FAULT_FORMS = {"json": fault_as_json, "markdown": fault_as_markdown}


def tell(review: Review, form: str, *, in_full: bool = True) -> None:
    """Print what has changed; as text, the summary alone unless `in_full`.

    Raises:
        ConfigError: it is for a program, and standard output cannot be written to.
    """
    if form in FORMS:
        give_text(FORMS[form](review))
    else:
        show_lines(as_lines(review) if in_full else as_summary(review))


def tell_fault(file: str, fault: CompileError, form: str) -> None:
    """Print why nothing could be compared, where the form that is asked for can say that.

    Raises:
        ConfigError: as `tell` does.
    """
    if form in FAULT_FORMS:
        give_text(FAULT_FORMS[form](file, fault))
