"""The eleven stages of a build, one module each with one function of the same name.

Called by `pipeline` alone. They never import each other: what one leaves is a record that the next
one loads. Face: in each module the function of its name.
"""
