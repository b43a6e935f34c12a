"""conda packages without conda: environment.yml, conda-lock.yml, solving, installing.

Called by `locks` and `toolchains`. Face: `lock_file.read_conda_lock`, `solve.solve`,
`install.install_packages`, `write.write_conda_lock`.
"""
