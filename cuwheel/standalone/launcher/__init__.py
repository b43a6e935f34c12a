"""Before every compiler of a build: the command line without what isn't reproducible."""
