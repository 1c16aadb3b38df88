"""The runtime of the emitted file, as ordinary modules.

The modules of `start` are code of the emitted file, which is compiled at every start. All others
stand in it as texts, under the names that they have here, and Python imports them when they are
first needed. They use the standard library only and import nothing of the compiler.
"""
