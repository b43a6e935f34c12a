"""A wheel as an archive: read, write, metadata, index, provenance, bill of materials.

Called by `repair`, `audit`, `verify` and the stages. Face: `archive`, `metadata`, `index`,
`provenance`, `sbom`.
"""
