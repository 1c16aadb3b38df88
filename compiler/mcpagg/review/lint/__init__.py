"""The pass after linking: what clients, model APIs and readers will stumble over."""

from mcpagg.review.lint.finding import Finding
from mcpagg.review.lint.linting import check_ignored, lint, shortened

__all__ = ["Finding", "check_ignored", "lint", "shortened"]
