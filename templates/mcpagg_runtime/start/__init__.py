"""The code of the emitted file itself: it answers before any server is started.

These modules share the names of the file, so they import as little as they can. What `main` imports
at its top is compiled at every start, the others when they are asked for. All other modules may use
the standard library as they like.
"""
