"""Compiles wait until the memory that they will take is free."""
