"""Questions to a foreign interpreter; the answer is JSON on standard output."""
