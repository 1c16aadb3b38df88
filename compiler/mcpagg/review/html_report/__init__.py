"""The report of a compilation as one HTML page, for people who review it in a browser."""

from mcpagg.review.html_report.page import render

__all__ = ["render"]
