"""The pass after linking: what clients, model APIs and readers will stumble over."""

from mcpagg.lint.finding import Finding
from mcpagg.lint.linting import check_ignored, lint, shortened

__all__ = ["Finding", "check_ignored", "lint", "shortened"]
