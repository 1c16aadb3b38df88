"""What has changed between FILE and what compiling now gives, and how that is told.

`reviewing.review` compares; `text`, `as_json`, `markdown` and `sarif` tell. `classes` names the
classes of changes.
"""
