"""The runtime of the emitted file, as ordinary modules.

Its folders are the parts of the emitted file: `start` stands in it as it is and is compiled at
every start, the others as strings, each of which is compiled as a whole when it is first needed.
A module imports its own part and earlier ones at its top, and later ones within functions. All use
the standard library only and import nothing of the compiler.
"""
