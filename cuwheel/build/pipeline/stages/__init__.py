"""The eleven stages of a build, one module each with one function of the same name.

They never import each other: each leaves a record that the later ones load.
"""
