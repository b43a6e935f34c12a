"""The stages of a build, one module each; they never import each other."""
