"""The code of the emitted file itself: it answers before any server is started.

These modules share the names of the file and are compiled at every start, so they import as little
as they can. All other modules may use the standard library as they like.
"""
