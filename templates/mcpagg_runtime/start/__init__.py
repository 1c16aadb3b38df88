"""The part of the emitted file that every start compiles: answers that the compiler prepared."""
