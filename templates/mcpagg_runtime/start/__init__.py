"""The part of the emitted file that every start compiles: answers that the compiler prepared.

It alone is frugal with what it imports: a client waits for it. What comes behind these answers
uses the standard library as anyone does.
"""
