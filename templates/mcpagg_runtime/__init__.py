"""The runtime of the emitted file, as ordinary modules.

The compiler inlines the rooms that a proxy needs into its file. They use the standard library
only, import one another from faces to core and never back, and import nothing of the compiler.
"""
