"""The last pass: the text of the emitted file, what FILE says already, and how it is written."""
