"""Prints a review in the form that is asked for."""

from __future__ import annotations

from mcpagg.printing import give_text, show_lines
from mcpagg.review.as_json import as_json
from mcpagg.review.markdown import as_markdown
from mcpagg.review.reviewing import Review
from mcpagg.review.sarif import as_sarif
from mcpagg.review.text import as_lines, as_summary

FORMS = {"json": as_json, "markdown": as_markdown, "sarif": as_sarif}


def tell(review: Review, form: str, *, in_full: bool = True) -> None:
    """Print what has changed; as text, the summary alone unless `in_full`.

    Raises:
        ConfigError: it is for a program, and standard output cannot be written to.
    """
    if form in FORMS:
        give_text(FORMS[form](review))
    else:
        show_lines(as_lines(review) if in_full else as_summary(review))
