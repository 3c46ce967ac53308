"""The judges of archives: programs of one file each, with the standard library and no code of the emulator."""
