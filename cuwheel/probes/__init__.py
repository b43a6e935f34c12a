"""Self-contained scripts that run in a foreign interpreter."""
